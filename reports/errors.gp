# SPDX-License-Identifier: Apache-2.0
# errors.gp - error over proven bound of every case, by type and backend, on a logarithmic axis.
#
# gnuplot NAME.def.gp errors.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has two blocks:
#   type backend place ratio, a line a case, place from -0.5 to 0.5 within the backend's slot
#   type backend worst median cases, a line a slot, ? where there is no figure
set encoding utf8
set datafile missing '?'

# Slots of one type stand side by side and fill 88 % of its width, points 80 % of a slot.
slot = 0.88 / n_backends
middle(type, backend) = type + (backend - (n_backends + 1) / 2.0) * slot
spread(place) = place * slot * 0.8
# The last point of a slot, under its figure.
worst(type, backend, cases) = middle(type, backend) + (cases > 0 ? spread(0.5 - 0.5 / cases) : 0)
of(b, value) = column(2) == b ? value : NaN
array markers[15] = [7, 5, 9, 13, 11, 4, 6, 8, 15, 12, 10, 14, 1, 2, 3]
marker(number) = markers[number % 15 + 1]

text_grey = '#444444'
# In pixels; lines of text make the foot taller.
foot = 84 + 17 * n_notes
height = 442 + foot
up(y) = 1 - y / (height + 0.0)
set logscale y 10
set border 3 lc rgb '#666666'
set style line 100 lc rgb '#dddddd' lw 1
set grid ytics ls 100
set grid noxtics
set tics nomirror scale 0.5
set xtics norangelimited scale 0
set xtics ()
do for [t = 1:n_types] { set xtics add (types[t] t) }
set ytics ()
do for [power = -6:4] {
    set ytics add ((power < -3 ? sprintf('1e%d', power) : sprintf('%g', 10.0 ** power)) 10.0 ** power)
}
set xlabel 'type of q, k, v and out' noenhanced
set ylabel 'error / proven bound' noenhanced
bottom = y_low / 1.8
# Where figures would run into each other they stand upright.
upright = n_types * n_backends > 12
top = y_high * (upright ? 20 : 3)
# Nothing lies outside: an exact result goes to the lower edge, a wild one to the upper.
height(ratio) = ratio < y_low ? bottom : ratio > y_high ? y_high : ratio
set xrange [0.5:n_types + 0.5]
set yrange [bottom:top]
many = n_backends > 8
key_font = many ? ',9.5' : ',12'
set key at screen 0.5,up(64) center top horizontal Left reverse noenhanced samplen 1 width 1 maxrows (many ? 3 : 2) font key_font
set lmargin at screen 0.12
set rmargin at screen 0.98
set tmargin at screen up(120)
set bmargin at screen up(height - foot)
set label 1 title at screen 0.5,up(22) center noenhanced font ',15'
set label 2 constants at screen 0.5,up(50) center noenhanced tc rgb text_grey
do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }
set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead lw 1.8 lc rgb '#8a1c00'
set label 5 'bound' at graph 0.005,first 1 offset 0,0.6 left noenhanced font ',10' tc rgb '#8a1c00'
# Between types.
do for [t = 2:n_types] { set arrow from t - 0.5, graph 0 to t - 0.5, graph 1 nohead lc rgb '#dddddd' }

# A plot of labels without one point crashes gnuplot 5.4.4: what is not said is an empty text.
data = base.'.dat'
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size 900,height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 1800,2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    plot for [b = 1:n_backends] data index 0 using (middle($1, $2) + spread($3)):(of(b, height($4))) \
             with points ps 0.7 pt marker(numbers[b]) lc rgb colours[b] title names[b], \
         data index 1 using (middle($1, $2) - slot * 0.4):(height($4)):(slot * 0.8):(0) \
             with vectors nohead lw 2 lc rgb '#000000' notitle, \
         data index 1 using (worst($1, $2, $5)):(height($3)):(upright ? '' : sprintf('%.3g', $3)) \
             with labels center offset 0,0.8 noenhanced font ',9' notitle, \
         data index 1 using (worst($1, $2, $5)):(height($3)):(upright ? sprintf('%.3g', $3) : '') \
             with labels rotate by 90 left offset 0,0.5 noenhanced font ',9' notitle, \
         data index 1 using (middle($1, $2)):(bottom):($5 == 0 ? 'no case' : '') \
             with labels rotate by 90 left offset 0,0.5 noenhanced font ',9' tc rgb text_grey notitle
    set output
}
