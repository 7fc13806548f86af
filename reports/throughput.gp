# SPDX-License-Identifier: Apache-2.0
# throughput.gp - clustered bars of GFLOP/s over one size, with intervals, roofs and marks.
#
# gnuplot NAME.def.gp throughput.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The definitions say what is drawn. The data file has two blocks:
#   backend point size gflops low high mark, a line a slot   ? where there is no figure; mark - where none
#   backend point gflops, a line a round: the rate of its median
set encoding utf8
set datafile missing '?'

# Bars of one size stand side by side and fill 84 % of the size's slot.
bar_width = 0.84 / n_backends
bar(point, backend) = point + (backend - (n_backends + 1) / 2.0) * bar_width
of(b, value) = column(1) == b ? value : NaN

# Each backend has its colour and its fill, so that none is told by colour alone.
array fills[8] = [3, 4, 5, 2, 7, 6, 1, 0]
fill(number) = fills[number % 8 + 1]

text_grey = '#444444'
# In pixels; lines of text make the foot taller.
foot = 84 + 17 * n_notes
height = 442 + foot
up(y) = 1 - y / (height + 0.0)
set border 3 lc rgb '#666666'
set style line 100 lc rgb '#dddddd' lw 1
set grid ytics ls 100
set grid noxtics
set tics nomirror scale 0.5
set xtics norangelimited scale 0
# No tics but ours: added ones alone would stand among gnuplot's own, 0.5, 1.5, ...
set xtics ()
do for [p = 1:n_points] { set xtics add (ticks[p] p) }
set xtics noenhanced
set xlabel x_label noenhanced
if (named) {
    # Names of cases are longer than sizes.
    tick_font = n_points > 8 ? ',8' : ',9.5'
    set xtics font tick_font
    if (n_points > 4) { set xtics rotate by 18 right }
}
set ylabel 'GFLOP/s (median)' noenhanced
set xrange [0.5:n_points + 0.5]
set yrange [0:y_top]
many = n_backends > 8
key_font = many ? ',9.5' : ',12'
set key at screen 0.5,up(64) center top horizontal Left reverse noenhanced samplen 2 width 1 maxrows (many ? 3 : 2) font key_font
set lmargin at screen 0.12
# The names of the roofs stand on the margin: within the plot they would cover bars.
set rmargin at screen roof > 0 ? 0.9 : 0.98
set tmargin at screen up(120)
set bmargin at screen up(height - foot)
set label 1 title at screen 0.5,up(22) center noenhanced font ',15'
set label 2 constants at screen 0.5,up(50) center noenhanced tc rgb text_grey
do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }
if (roof > 0) {
    set arrow 1 from graph 0,first roof to graph 1,first roof nohead lw 1.6 lc rgb '#333333' dt 2
    set label 5 "f32 FMA\n".roof_label at graph 1,first roof offset 0.6,0.45 left noenhanced font ',9'
}
if (roof2 > 0) {
    set arrow 2 from graph 0,first roof2 to graph 1,first roof2 nohead lw 1.2 lc rgb '#777777' dt 3
    set label 6 "f32 FMA\n".roof2_label at graph 1,first roof2 offset 0.6,0.45 left noenhanced font ',9'
}

# What is missing is said in its slot, upright, no taller than the slot is wide: the plot is about
# 700 of the picture's 900 units wide. A ground of white keeps the grid from striking it through.
slot = 700 * bar_width / n_points
mark_size = slot > 11 ? 9 : slot > 8 ? 7 : 5
mark_font = sprintf(',%d', mark_size)
missing(mark) = mark ne '-' && mark ne '*'
# The plot is 324 units high.
mark_top(mark) = y_top * (0.012 + 0.75 * mark_size * strlen(mark) / 324)
# A plot of labels without one point crashes gnuplot 5.4.4: what is not said is an empty text.
data = base.'.dat'
set boxwidth bar_width * 0.92
set style fill solid border
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size 900,height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 1800,2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    # A tint under the pattern, so that a hatched bar still reads as its colour.
    plot for [b = 1:n_backends] data index 0 using (bar($2, b)):(of(b, $4)) with boxes \
             fill solid 0.3 noborder lc rgb colours[b] notitle, \
         for [b = 1:n_backends] data index 0 using (bar($2, b)):(of(b, $4)) with boxes \
             fill transparent pattern fill(numbers[b]) border lc rgb colours[b] lc rgb colours[b] title names[b], \
         data index 1 using (bar($2, $1)):3 with points pt 7 ps 0.35 lc rgb '#000000' notitle, \
         data index 0 using (bar($2, $1)):5:(0):($6 - $5) \
             with vectors heads size graph 0.004,90 lw 1.2 lc rgb '#000000' notitle, \
         data index 0 using (bar($2, $1)):(missing(strcol(7)) ? mark_top(strcol(7)) / 2 : NaN):(bar_width / 2):(mark_top(strcol(7)) / 2 - y_top * 0.006) \
             with boxxyerror fs solid noborder fc rgb '#ffffff' notitle, \
         data index 0 using (bar($2, $1)):(y_top * 0.012):(missing(strcol(7)) ? strcol(7) : '') \
             with labels rotate by 90 left noenhanced font mark_font tc rgb '#8a1c00' notitle, \
         data index 0 using (bar($2, $1)):6:(strcol(7) eq '*' ? '*' : '') \
             with labels offset 0,0.4 noenhanced font ',11' notitle
    set output
}
