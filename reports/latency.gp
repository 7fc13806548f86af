# SPDX-License-Identifier: Apache-2.0
# latency.gp - time of one run over the sequence length, log-log, with guides for n and n^2.
#
# gnuplot NAME.def.gp latency.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has one line a point: backend size median_ns low high      ? where none
set encoding utf8
set datafile missing '?'

array markers[15] = [7, 5, 9, 13, 11, 4, 6, 8, 15, 12, 10, 14, 1, 2, 3]
marker(number) = markers[number % 15 + 1]
of(b, value) = column(1) == b ? value : NaN

text_grey = '#444444'
# In pixels; lines of text make the foot taller.
foot = 84 + 17 * n_notes
height = 442 + foot
up(y) = 1 - y / (height + 0.0)
x_low = points[1]
x_high = points[n_points]
set logscale x 2
set logscale y 10
set border 3 lc rgb '#666666'
set style line 100 lc rgb '#dddddd' lw 1
set grid ytics ls 100
set tics nomirror scale 0.5
set xtics norangelimited
set xtics ()
do for [p = 1:n_points] { set xtics add (sprintf('%d', points[p]) points[p]) }
set xlabel x_label noenhanced
set ylabel 'time of one run (median)' noenhanced
# Powers of ten, not all of them where there are many, and 2 and 5 between where there are few.
decades = log10(y_high / y_low)
step = decades > 8 ? 3 : decades > 5 ? 2 : 1
duration(factor, power) = sprintf('%d %s', factor * 10 ** (power % 3), word('ns µs ms s ks Ms', power / 3 + 1))
set ytics ()
do for [power = 0:17:step] {
    do for [factor in (decades < 2 ? '1 2 5' : '1')] {
        set ytics add (duration(factor, power) factor * 10.0 ** power)
    }
}
bottom = y_low / 1.6
top = y_high * 1.6
set xrange [x_low / 1.12:x_high * 1.35]
set yrange [bottom:top]
many = n_backends > 4
key_font = many ? ',9.5' : ',12'
set key at screen 0.5,up(64) center top horizontal Left reverse noenhanced samplen 2.5 width 1 maxrows (many ? 3 : 2) font key_font
set lmargin at screen 0.14
set rmargin at screen 0.98
set tmargin at screen up(120)
set bmargin at screen up(height - foot)
set label 1 title at screen 0.5,up(22) center noenhanced font ',15'
set label 2 constants at screen 0.5,up(50) center noenhanced tc rgb text_grey
do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }

# Guides start a little above the least first point; each is named where it leaves the picture.
linear(x) = anchor * 1.4 * x / x_low
square(x) = anchor * 1.4 * (x / x_low) ** 2
leave(x_at_top) = x_at_top < x_high ? x_at_top : x_high
n_end = leave(x_low * top / (anchor * 1.4))
n2_end = leave(x_low * sqrt(top / (anchor * 1.4)))
set arrow 1 from x_low,linear(x_low) to n_end,linear(n_end) nohead lc rgb '#999999' dt 2
set arrow 2 from x_low,square(x_low) to n2_end,square(n2_end) nohead lc rgb '#999999' dt 2
set label 5 'n' at n_end,linear(n_end) offset 1.6,0 left tc rgb text_grey noenhanced
set label 6 'n²' at n2_end,square(n2_end) offset 1.6,0 left tc rgb text_grey noenhanced

data = base.'.dat'
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size 900,height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 1800,2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    plot for [b = 1:n_backends] data using 2:(of(b, $4)):(0):($5 - $4) \
             with vectors heads size graph 0.004,90 lw 1.2 lc rgb '#000000' notitle, \
         for [b = 1:n_backends] data using 2:(of(b, $3)) with linespoints \
             lw 2 ps 1.1 pt marker(numbers[b]) lc rgb colours[b] title names[b]
    set output
}
