# SPDX-License-Identifier: Apache-2.0
# errors.gp - error over proven bound of every case, by type and backend, on a logarithmic axis.
#
# gnuplot NAME.def.gp errors.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has two blocks:
#   slot backend place ratio, a line a case, place from -0.5 to 0.5 within the slot
#   slot backend worst median cases, a line a slot, ? where there is no figure
set encoding utf8
set datafile missing '?'

# Slots of one type stand side by side, with an empty one between types. Points fill 80 % of a slot.
n_slots = -1
array starts[n_types]
do for [t = 1:n_types] {
    starts[t] = n_slots + 2
    n_slots = n_slots + type_slots[t] + 1
}
spread(place) = place * 0.8
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
do for [t = 1:n_types] { set xtics add (types[t] starts[t] + (type_slots[t] - 1) / 2.0) }
set ytics ()
do for [power = -6:4] {
    if (10.0 ** power <= y_high * 1.01) {
        set ytics add ((power < -3 ? sprintf('1e%d', power) : sprintf('%g', 10.0 ** power)) 10.0 ** power)
    }
}
set xlabel 'type of q, k, v and out' noenhanced
set ylabel 'error / proven bound' noenhanced
bottom = y_low / 1.8
# The largest ratios stand in a row above all points and above the bound, so that neither strikes one
# through; upright where they would run into each other. The plot is 324 units high.
upright = n_slots > 16
row = (upright ? 52 : 22) / 324.0
top = y_high * (y_high / bottom) ** (row / (1 - row))
figures = y_high * (top / bottom) ** (10 / 324.0)
# Nothing lies outside: an exact result goes to the lower edge, a wild one to the upper.
inside(ratio) = ratio < y_low ? bottom : ratio > y_high ? y_high : ratio
set xrange [0.3:n_slots + 0.7]
set yrange [bottom:top]
many = n_backends > 8
key_font = many ? ',9.5' : ',12'
set key at screen 0.5,up(64) center top horizontal Left reverse noenhanced samplen 1 width 1 maxrows (many ? 3 : 2) font key_font
set lmargin at screen 0.12
set rmargin at screen 0.94
set tmargin at screen up(120)
set bmargin at screen up(height - foot)
set label 1 title at screen 0.5,up(22) center noenhanced font ',15'
set label 2 constants at screen 0.5,up(50) center noenhanced tc rgb text_grey
do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }
set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead lw 1.8 lc rgb '#8a1c00'
set label 5 'bound' at graph 1,first 1 offset 0.6,0 left noenhanced font ',10' tc rgb '#8a1c00'
# Between types.
do for [t = 2:n_types] { set arrow from starts[t] - 1, graph 0 to starts[t] - 1, graph 1 nohead lc rgb '#dddddd' }

# A plot of labels without one point crashes gnuplot 5.4.4: what is not said is an empty text.
data = base.'.dat'
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size 900,height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 1800,2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    plot for [b = 1:n_backends] data index 0 using ($1 + spread($3)):(of(b, inside($4))) \
             with points ps 0.7 pt marker(numbers[b]) lc rgb colours[b] title names[b], \
         data index 1 using ($1 - 0.4):(inside($4)):(0.8):(0) \
             with vectors nohead lw 2 lc rgb '#000000' notitle, \
         data index 1 using 1:(figures):(upright ? '' : sprintf('%#.3g', $3)) \
             with labels center offset 0,0.3 noenhanced font ',9' notitle, \
         data index 1 using 1:(figures):(upright ? sprintf('%#.3g', $3) : '') \
             with labels rotate by 90 left noenhanced font ',9' notitle
    set output
}
