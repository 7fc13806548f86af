# SPDX-License-Identifier: Apache-2.0
# against.gp - ratios of two runs with their intervals, one line a result, the slowest on top.
#
# gnuplot NAME.def.gp against.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has one line a result: row backend ratio low high verdict      ? where none
set encoding utf8
set datafile missing '?'

array markers[15] = [7, 5, 9, 13, 11, 4, 6, 8, 15, 12, 10, 14, 1, 2, 3]
marker(number) = markers[number % 15 + 1]
of(b, value) = column(2) == b ? value : NaN
data = base.'.dat'
text_grey = '#444444'
row_height = 18
key_rows = n_backends > 10 ? 3 : n_backends > 6 ? 2 : 1
head = 56 + 18 * key_rows
foot = 58 + 17 * n_notes
width = 900
height = head + n_rows * row_height + foot
x_low = 1 / x_high

set logscale x 2
set border 1 lc rgb '#666666'
set style line 100 lc rgb '#dddddd' lw 1
set grid xtics ls 100
set tics nomirror scale 0.5 font ',10'
unset ytics
set xtics ()
do for [tic in (x_high > 4 ? '1/16 1/8 1/4 1/2 1 2 4 8 16' : x_high > 1.6 ? '1/4 1/3 1/2 2/3 0.8 1 1.25 1.5 2 3 4' : '0.7 0.8 0.9 0.95 1 1.05 1.1 1.2 1.3 1.5')] {
    slash = strstrt(tic, '/')
    value = slash ? real(tic[1:slash - 1]) / real(tic[slash + 1:]) : real(tic)
    set xtics add (tic value)
}
set xrange [x_low:x_high]
set yrange [n_rows + 0.7:0.3]
set xlabel 'new / base' noenhanced font ',11'
set lmargin at screen 265.0 / width
set rmargin at screen 1 - 90.0 / width
set tmargin at screen 1 - head / (height + 0.0)
set bmargin at screen foot / (height + 0.0)
set label 1 title at screen 0.5,1 - 22.0 / height center noenhanced font ',15'
do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,(11.0 + 17 * (n_notes - i)) / height left noenhanced font ',9' tc rgb text_grey }
set key at screen 0.5,1 - 42.0 / height center top horizontal Left reverse noenhanced samplen 1 width 1 maxrows key_rows font ',10'
do for [r = 1:n_rows] {
    set label 3 + r rows[r] at graph 0,first r offset -0.8,0 right noenhanced font ',10' tc rgb text_grey
}
set object 1 rect from 1 / (1 + margin),graph 0 to 1 + margin,graph 1 fc rgb '#eeeeee' fs solid noborder behind
set arrow 1 from 1,graph 0 to 1,graph 1 nohead lw 1.4 lc rgb '#333333' back

cut(x) = x > x_high ? x_high : x < x_low ? x_low : x
# A word for each verdict, in colours of 4.5 to 1 and more on white.
ink(verdict) = verdict eq 'slower' ? 0xb3261e : verdict eq 'faster' ? 0x0b6b43 : verdict eq 'same' ? 0x444444 : 0x8a5300
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size width, height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 2 * width, 2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,10' background '#ffffff'
    }
    set output base.'.'.t
    plot for [b = 1:n_backends] data using (of(b, cut($4))):1:(cut($5) - cut($4)):(0) \
             with vectors nohead lw 1.6 lc rgb colours[b] notitle, \
         for [b = 1:n_backends] data using (of(b, cut($3))):1 \
             with points ps 1 pt marker(numbers[b]) lc rgb colours[b] title names[b], \
         data using (x_high):1:6:(ink(strcol(6))) with labels offset 1,0 left noenhanced font ',10' tc rgb variable notitle
    set output
}
