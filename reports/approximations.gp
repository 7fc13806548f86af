# SPDX-License-Identifier: Apache-2.0
# approximations.gp - error against time, a panel for each input and length, log-log.
#
# gnuplot NAME.def.gp approximations.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has two blocks:
#   panel backend time error, a line a point
#   panel across up ends name, a line a name: where it begins, or ends, as a part of the panel
set encoding utf8
set datafile missing '?'
set datafile separator whitespace

array markers[15] = [7, 5, 9, 13, 11, 4, 6, 8, 15, 12, 10, 14, 1, 2, 3]
marker(number) = markers[number % 15 + 1]
data = base.'.dat'
text_grey = '#444444'

# Panels stand in two columns. Everything is measured in pixels.
columns = n_panels > 1 ? 2 : 1
rows = (n_panels + columns - 1) / columns
key_rows = n_backends > 10 ? 3 : n_backends > 6 ? 2 : 1
panel_height = 300
head = 66 + 16 * key_rows
foot = 28 + 17 * n_notes
width = 900
height = head + rows * panel_height + foot
up(y) = 1 - y / (height + 0.0)
across(x) = x / (width + 0.0)
panel_width = (width - 20) / columns
panel_left(p) = 10 + ((p - 1) % columns) * panel_width
panel_top(p) = head + ((p - 1) / columns) * panel_height

set logscale xy 10
set style line 100 lc rgb '#dddddd' lw 1
set grid ytics ls 100
key_font = n_backends > 6 ? ',9.5' : ',11'
here(p) = column(1) == p
# Tics at 1, 2 and 5 where there is room for them, else at 1 and 3, or at powers of ten.
within(low, high, part) = low / 2 * (4 * high / low) ** part
between(low, high) = high / low > 600 ? '1' : high / low > 60 ? '1 3' : '1 2 5'
# Short enough for the margin.
scale(m, power) = power < -3 ? sprintf('%se%d', m, power) : sprintf('%g', m * 10.0 ** power)
seconds(ns) = ns < 1e3 ? sprintf('%g ns', ns) : ns < 1e6 ? sprintf('%g us', ns / 1e3) : \
              ns < 1e9 ? sprintf('%g ms', ns / 1e6) : sprintf('%g s', ns / 1e9)
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
    set key at screen 0.5,up(40) center top horizontal Left reverse noenhanced samplen 1 width 1 maxrows key_rows font key_font
    set lmargin at screen 0.02
    set rmargin at screen 0.98
    set tmargin at screen up(40)
    set bmargin at screen up(head)
    unset border
    unset tics
    set xrange [1:2]
    set yrange [1:2]
    plot for [b = 1:n_backends] keyentry with points ps 1 pt marker(numbers[b]) lc rgb colours[b] title names[b], \
         NaN notitle
    unset key
    unset label
    set border 3 lc rgb '#666666'
    set xtics nomirror scale 0.5 font ',10'
    set ytics nomirror scale 0.5 font ',10'
    do for [p = 1:n_panels] {
        set lmargin at screen across(panel_left(p) + 58)
        set rmargin at screen across(panel_left(p) + 58 + plot_width)
        set tmargin at screen up(panel_top(p) + 24)
        set bmargin at screen up(panel_top(p) + 24 + plot_height)
        set label 4 panel_title[p] at screen across(panel_left(p) + 58),up(panel_top(p) + 10) left noenhanced font ',11'
        set label 5 ylabel at screen across(panel_left(p) + 10),up(panel_top(p) + panel_height / 2.0) center rotate by 90 noenhanced font ',8' tc rgb text_grey
        set xrange [x_low[p] / 2:x_high[p] * 2]
        set yrange [y_low[p] / 2:y_high[p] * 2]
        set ytics ()
        do for [power = -5:3] { do for [m in between(y_low[p] / 2, y_high[p] * 2)] { set ytics add (scale(m, power) m * 10.0 ** power) } }
        set xtics ()
        do for [power = 2:10] { do for [m in between(x_low[p] / 2, x_high[p] * 2)] { set xtics add (seconds(m * 10.0 ** power) m * 10.0 ** power) } }
        if (exact[p] > 0) {
            set arrow 1 from exact[p],graph 0 to exact[p],graph 1 nohead lw 1.4 lc rgb '#333333' back
            set label 6 panel_exact[p] at exact[p],graph 0.98 rotate by 90 right offset -0.6,0 noenhanced font ',9' tc rgb '#333333'
        }
        plot for [b = 1:n_backends] data index 0 using (here(p) && $2 == b ? $3 : NaN):4 \
                 with points ps 0.9 pt marker(numbers[b]) lc rgb colours[b] notitle, \
             data index 1 using (within(x_low[p], x_high[p], $2)):(within(y_low[p], y_high[p], $3)):(here(p) && $4 == 0 ? strcol(5) : '') \
                 with labels left noenhanced font ',8' tc rgb text_grey notitle, \
             data index 1 using (within(x_low[p], x_high[p], $2)):(within(y_low[p], y_high[p], $3)):(here(p) && $4 == 1 ? strcol(5) : '') \
                 with labels right noenhanced font ',8' tc rgb text_grey notitle
        if (exact[p] > 0) { unset arrow 1; unset label 6 }
    }
    do for [l in '4 5'] { unset label l + 0 }
    unset multiplot
    set output
}
