# SPDX-License-Identifier: Apache-2.0
# speedup.gp - speed-up by case and backend in colours of its logarithm, hatched where unclear.
#
# gnuplot NAME.def.gp speedup.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has one line a cell: row column colour text_colour hatched text
set encoding utf8

# All is placed in pixels from the top left.
text_grey = '#444444'
longest = 4
do for [b = 1:n_backends] { if (strlen(names[b]) > longest) { longest = strlen(names[b]) } }
row_height = 19
left = 265
wanted = 620.0 / n_backends
column_width = wanted < 150 ? wanted : 150
# Names of backends stand upright where they would run into each other.
upright = longest * 7.2 > column_width
above = 66 + (upright ? 7.8 * (longest < 24 ? longest : 24) : 16)
below = 66 + 17 * n_notes
width = 900
height = above + n_rows * row_height + below
row_y(r) = above + (r - 0.5) * row_height
column_x(c) = left + (c - 0.5) * column_width

unset border
unset tics
unset key
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen 1
set bmargin at screen 0
set xrange [0:width]
set yrange [height:0]

set label 1 title at width / 2, 22 center noenhanced font ',15'
do for [i = 1:n_notes] { set label 1 + i notes[i] at 12, height - 11 - 17 * (n_notes - i) left noenhanced font ',9' tc rgb text_grey }
n = 1 + n_notes
do for [b = 1:n_backends] {
    n = n + 1
    short = strlen(names[b]) > 24 ? substr(names[b], 1, 23).'…' : names[b]
    if (upright) {
        set label n short at column_x(b), above - 6 rotate by 90 left noenhanced font ',11'
    } else {
        set label n short at column_x(b), above - 10 center noenhanced font ',11'
    }
}
do for [r = 1:n_rows] {
    n = n + 1
    if (heads[r]) {
        set label n rows[r] at 12, row_y(r) left noenhanced font ',11' tc rgb '#000000'
        set arrow r from 12, row_y(r) + 9.2 to left + n_backends * column_width, row_y(r) + 9.2 nohead lc rgb '#999999'
    } else {
        set label n rows[r] at left - 8, row_y(r) right noenhanced font ',10' tc rgb text_grey
    }
}

# The colour bar, with a tic at each power of two.
step = 26 * n_steps > 500 ? 500.0 / n_steps : 26
bar_left = left + 60
bar_y = height - below + 28
bar_height = 12
do for [s = 1:n_steps] {
    set object s rect from bar_left + (s - 1) * step, bar_y to bar_left + s * step, bar_y + bar_height \
        fc rgb steps[s] fs solid noborder
    n = n + 1
    set label n tics[s] at bar_left + (s - 0.5) * step, bar_y + bar_height + 9 center noenhanced font ',9' tc rgb text_grey
}
set object n_steps + 1 rect from bar_left, bar_y to bar_left + n_steps * step, bar_y + bar_height fs empty border lc rgb '#666666'
set label n + 1 'slower' at bar_left - 8, bar_y + bar_height / 2 right noenhanced font ',9' tc rgb text_grey
set label n + 2 'faster' at bar_left + n_steps * step + 8, bar_y + bar_height / 2 left noenhanced font ',9' tc rgb text_grey

# Hatching has to be seen on strong colours as well as on pale ones: it is as light or dark as the
# text that reads there, and softer on what is nearly white (its red is then above 200).
hatch(colour, text) = text > 0 ? 0xffffff : colour / 65536 > 200 ? 0x777777 : 0x202020

# A figure on hatching has a ground of its own.
set style textbox opaque fillcolor rgb '#ffffff' noborder margins 0.6, 0.2
data = base.'.dat'
half_x = column_width / 2 - 1
half_y = row_height / 2.0 - 1
figure_font = column_width < 36 ? ',8' : ',9'
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size width, height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 2 * width, 2 * height fontscale 2 linewidth 2 font 'DejaVu Sans,10' background '#ffffff'
    }
    set output base.'.'.t
    plot data using (column_x($2)):(row_y($1)):(half_x):(half_y):3 with boxxyerror fs solid noborder lc rgb variable, \
         data using (column_x($2)):($5 == 1 ? row_y($1) : NaN):(half_x):(half_y):(hatch($3, $4)) \
             with boxxyerror fill transparent pattern 4 noborder lc rgb variable, \
         data using (column_x($2)):(row_y($1)):($5 == 1 ? '' : stringcolumn(6)):4 with labels noenhanced font figure_font tc rgb variable, \
         data using (column_x($2)):($5 == 1 ? row_y($1) : NaN):6 with labels boxed noenhanced font figure_font tc rgb '#000000'
    set output
}
