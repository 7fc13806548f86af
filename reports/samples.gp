# SPDX-License-Identifier: Apache-2.0
# samples.gp - samples over the median of their case: a panel for each backend, with the course over
# the rounds and the distribution beside it.
#
# gnuplot NAME.def.gp samples.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has two blocks:
#   backend round p10 median p90
#   backend low high share, a line a bin of the distribution
set encoding utf8

data = base.'.dat'
text_grey = '#444444'
columns = n_backends < 2 ? 1 : n_backends < 5 ? 2 : 3
rows = (n_backends + columns - 1) / columns
panel_height = 150
head = 44
foot = 28 + 17 * n_notes
width = 900
height = head + rows * panel_height + foot
up(y) = 1 - y / (height + 0.0)
across(x) = x / (width + 0.0)
panel_width = (width - 20) / columns
panel_left(b) = 10 + ((b - 1) % columns) * panel_width
panel_top(b) = head + ((b - 1) / columns) * panel_height
course_right(b) = panel_left(b) + panel_width * 0.7
bottom = y_low / 1.02
top = y_high * 1.02

set logscale y 2
set yrange [bottom:top]
set style line 100 lc rgb '#dddddd' lw 1
unset key
spread = y_high / y_low
tics_of = spread > 1.9 ? '0.5 0.7 1 1.4 2 2.8 4' : spread > 1.5 ? '0.5 0.7 1 1.4 2' : '0.8 0.9 0.95 1 1.05 1.1 1.2 1.3'
many_rounds = n_rounds > 12

do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size width, height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 2 * width, 2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    set multiplot
    do for [b = 1:n_backends] {
        if (b == 1) {
            set label 1 title at screen 0.5,up(20) center noenhanced font ',15'
            do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }
        }
        set label 4 names[b] at screen across(panel_left(b) + 40),up(panel_top(b) + 10) left noenhanced font ',11'
        set tmargin at screen up(panel_top(b) + 24)
        set bmargin at screen up(panel_top(b) + panel_height - 24)
        set lmargin at screen across(panel_left(b) + 40)
        set rmargin at screen across(course_right(b))
        set border 3 lc rgb '#666666'
        set grid ytics ls 100
        set ytics nomirror scale 0.4 font ',9'
        set ytics ()
        do for [tic in tics_of] { set ytics add (tic real(tic)) }
        set xtics nomirror scale 0.4 font ',9'
        set xtics 1, (many_rounds ? ceil(n_rounds / 6.0) : 1)
        set xrange [0.5:n_rounds + 0.5]
        set arrow 1 from 0.5,1 to n_rounds + 0.5,1 nohead lw 1 lc rgb '#888888' back
        plot data index 0 using ($1 == b ? $2 : NaN):3:5 with filledcurves fc rgb colours[b] fs transparent solid 0.25 noborder, \
             data index 0 using ($1 == b ? $2 : NaN):4 with linespoints lw 1.6 pt 7 ps (many_rounds ? 0.2 : 0.5) lc rgb colours[b]
        unset label
        unset arrow 1
        set lmargin at screen across(course_right(b) + 6)
        set rmargin at screen across(panel_left(b) + panel_width - 10)
        set border 2 lc rgb '#bbbbbb'
        unset xtics
        unset ytics
        unset grid
        set xrange [0:1.05]
        plot data index 1 using ($1 == b ? $4 / 2 : NaN):($2):(0):($4):2:3 with boxxyerror fs solid 0.6 noborder lc rgb colours[b]
    }
    unset multiplot
    set output
}
