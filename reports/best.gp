# SPDX-License-Identifier: Apache-2.0
# best.gp - time over that of the best backend: a panel for each sweep over S, H or d, log-log.
#
# gnuplot NAME.def.gp best.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has one line a point: panel backend size ratio low high      ? where none
set encoding utf8
set datafile missing '?'

array markers[15] = [7, 5, 9, 13, 11, 4, 6, 8, 15, 12, 10, 14, 1, 2, 3]
marker(number) = markers[number % 15 + 1]
data = base.'.dat'
text_grey = '#444444'
bottom = y_low
top = y_high * 1.15

# Panels stand in two columns. Everything is measured in pixels.
columns = n_panels > 1 ? 2 : 1
rows = (n_panels + columns - 1) / columns
key_rows = n_backends > 10 ? 3 : n_backends > 6 ? 2 : 1
panel_height = 250
head = 66 + 16 * key_rows
foot = 28 + 17 * n_notes
width = 900
height = head + rows * panel_height + foot
up(y) = 1 - y / (height + 0.0)
across(x) = x / (width + 0.0)
panel_width = (width - 20) / columns
panel_left(p) = 10 + ((p - 1) % columns) * panel_width
panel_top(p) = head + ((p - 1) / columns) * panel_height

set logscale x 2
set logscale y 2
set border 3 lc rgb '#666666'
set style line 100 lc rgb '#dddddd' lw 1
set grid ytics ls 100
set yrange [bottom:top]
key_font = n_backends > 6 ? ',9.5' : ',11'

# Backends stand side by side, so that whiskers do not cover each other.
beside(b, x) = x * 2 ** ((b - (n_backends + 1) / 2.0) * 0.3 / n_backends)
here(p, b) = column(1) == p && column(2) == b
cut(y) = y > y_high ? y_high : y < bottom ? bottom : y
# Where a whisker that is cut gets its mark; a ratio that is cut has one of its own.
high_cut(ratio, high) = ratio <= y_high && high > y_high ? y_high * 1.07 : NaN
low_cut(low) = low < bottom ? bottom * 1.04 : NaN
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
    # The names, in a plot of their own as wide as the picture: a key is never wider than its plot.
    set key at screen 0.5,up(40) center top horizontal Left reverse noenhanced samplen 2 width 1 maxrows key_rows font key_font
    set lmargin at screen 0.02
    set rmargin at screen 0.98
    set tmargin at screen up(40)
    set bmargin at screen up(head)
    unset border
    unset tics
    set xrange [1:2]
    plot for [b = 1:n_backends] keyentry with linespoints lw 2 ps 1 pt marker(numbers[b]) lc rgb colours[b] title names[b], \
         NaN notitle
    unset key
    unset label
    set border 3 lc rgb '#666666'
    set xtics nomirror scale 0.5 font ',10'
    set ytics nomirror scale 0.5 font ',10'
    set ytics ()
    do for [power = 0:10] { set ytics add (sprintf('%d', 2 ** power) 2 ** power) }
    set ytics add ('1.4' sqrt(2))
    do for [p = 1:n_panels] {
        set lmargin at screen across(panel_left(p) + 54)
        set rmargin at screen across(panel_left(p) + panel_width - 8)
        set tmargin at screen up(panel_top(p) + 34)
        set bmargin at screen up(panel_top(p) + panel_height - 34)
        set label 4 panel_title[p] at screen across(panel_left(p) + 54),up(panel_top(p) + 6) left noenhanced font ',11'
        set label 7 ylabel at screen across(panel_left(p) + 10),up(panel_top(p) + panel_height / 2.0) center rotate by 90 noenhanced font ',9' tc rgb text_grey
        set label 5 panel_text[p] at screen across(panel_left(p) + 54),up(panel_top(p) + 22) left noenhanced font ',9' tc rgb text_grey
        x_low = word(panel_sizes[p], 1) + 0
        x_high = word(panel_sizes[p], words(panel_sizes[p])) + 0
        set xrange [x_low / 1.3:x_high * 1.3]
        set xtics ()
        do for [size in panel_sizes[p]] { set xtics add (size size + 0) }
        set arrow 1 from x_low / 1.3,1 to x_high * 1.3,1 nohead lw 1.4 lc rgb '#333333' back
        plot for [b = 1:n_backends] data using (here(p, b) ? beside(b, $3) : NaN):(cut($5)):(0):(cut($6) - cut($5)) \
                 with vectors nohead lw 1 lc rgb colours[b] notitle, \
             for [b = 1:n_backends] data using (here(p, b) ? beside(b, $3) : 1/0):(here(p, b) ? cut($4) : 1/0) \
                 with linespoints lw 1.6 ps 0.8 pt marker(numbers[b]) lc rgb colours[b] notitle, \
             for [b = 1:n_backends] data using (here(p, b) ? beside(b, $3) : NaN):(high_cut($4, $6)) \
                 with points pt 8 ps 0.6 lc rgb colours[b] notitle, \
             for [b = 1:n_backends] data using (here(p, b) ? beside(b, $3) : NaN):(low_cut($5)) \
                 with points pt 10 ps 0.6 lc rgb colours[b] notitle, \
             data using (column(1) == p && $4 > y_high ? beside($2, $3) : NaN):(y_high * 1.07) \
                 with points pt 9 ps 0.5 lc rgb '#444444' notitle
        unset arrow 1
    }
    do for [l in '4 5 7'] { unset label l + 0 }
    unset multiplot
    set output
}
