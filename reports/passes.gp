# SPDX-License-Identifier: Apache-2.0
# passes.gp - rates of the forward and the backward pass over S: a panel for each backend and mask.
#
# gnuplot NAME.def.gp passes.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has one line a size: panel size forward low high backward low high
set encoding utf8
set datafile missing '?'

data = base.'.dat'
text_grey = '#444444'
forward = '#0072B2'
backward = '#D55E00'

# Panels stand in columns. Everything is measured in pixels.
columns = n_panels > 4 ? 3 : n_panels > 1 ? 2 : 1
rows = (n_panels + columns - 1) / columns
panel_height = columns > 2 ? 210 : 250
head = 72
foot = 28 + 17 * n_notes
width = 900
height = head + rows * panel_height + foot
up(y) = 1 - y / (height + 0.0)
across(x) = x / (width + 0.0)
panel_width = (width - 20) / columns
panel_left(p) = 10 + ((p - 1) % columns) * panel_width
# Text is narrower in narrow panels.
text_left = columns > 2 ? 34 : 54
small = columns > 2 ? ',8' : ',9'
panel_top(p) = head + ((p - 1) / columns) * panel_height

set logscale x 2
set style line 100 lc rgb '#dddddd' lw 1
set grid ytics ls 100

# Side by side, so that whiskers do not cover each other.
beside(x, step) = x * 2 ** (0.06 * step)
here(p, y) = column(1) == p ? y : NaN
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size width, height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 2 * width, 2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    set multiplot
    set label 1 title at screen 0.5,up(20) center noenhanced font ',15'
    do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }
    # The key, in a plot of its own as wide as the picture.
    set key at screen 0.5,up(40) center top horizontal Left reverse noenhanced samplen 3 width 2 font ',11'
    set lmargin at screen 0.02
    set rmargin at screen 0.98
    set tmargin at screen up(40)
    set bmargin at screen up(head)
    unset border
    unset tics
    set xrange [1:2]
    set yrange [0:1]
    plot keyentry with linespoints lw 2 ps 1.1 pt 7 lc rgb forward title 'forward', \
         keyentry with linespoints lw 2 ps 1.1 pt 8 dt 2 lc rgb backward title 'backward', \
         NaN notitle
    unset key
    unset label
    set border 3 lc rgb '#666666'
    set xtics nomirror scale 0.5 font ',9'
    set ytics nomirror scale 0.5 font ',10'
    do for [p = 1:n_panels] {
        set lmargin at screen across(panel_left(p) + 54)
        set rmargin at screen across(panel_left(p) + panel_width - 8)
        set tmargin at screen up(panel_top(p) + 54)
        set bmargin at screen up(panel_top(p) + panel_height - 28)
        set label 4 panel_title[p] at screen across(panel_left(p) + text_left),up(panel_top(p) + 10) left noenhanced font ',11'
        set label 5 panel_text[p] at screen across(panel_left(p) + text_left),up(panel_top(p) + 26) left noenhanced font small tc rgb text_grey
        set label 6 panel_time[p] at screen across(panel_left(p) + text_left),up(panel_top(p) + 40) left noenhanced font small tc rgb text_grey
        set label 7 'GFLOP/s' at screen across(panel_left(p) + 10),up(panel_top(p) + panel_height / 2.0) center rotate by 90 noenhanced font ',9' tc rgb text_grey
        x_low = word(panel_sizes[p], 1) + 0
        x_high = word(panel_sizes[p], words(panel_sizes[p])) + 0
        set xrange [x_low / 1.3:x_high * 1.3]
        set xtics ()
        do for [size in panel_sizes[p]] { set xtics add (size size + 0) }
        set yrange [0:y_high[p] * 1.08]
        set ytics autofreq
        plot data using (beside($2, -1)):(here(p, $4)):(0):($5 - $4) with vectors nohead lw 1 lc rgb forward notitle, \
             data using (beside($2, 1)):(here(p, $7)):(0):($8 - $7) with vectors nohead lw 1 lc rgb backward notitle, \
             data using (beside($2, -1)):(here(p, $3)) with linespoints lw 2 ps 0.9 pt 7 lc rgb forward notitle, \
             data using (beside($2, 1)):(here(p, $6)) with linespoints lw 2 ps 0.9 pt 8 dt 2 lc rgb backward notitle
    }
    do for [l in '4 5 6 7'] { unset label l + 0 }
    unset multiplot
    set output
}
