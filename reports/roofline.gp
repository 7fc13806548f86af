# SPDX-License-Identifier: Apache-2.0
# roofline.gp - GFLOP/s over FLOPs per byte, log-log, under the roofs of arithmetic and of memory.
#
# gnuplot NAME.def.gp roofline.gp, in the folder that holds NAME.dat; draws NAME.svg and NAME.png.
# The data file has one line a point: backend flops_per_byte gflops
set encoding utf8

array markers[15] = [7, 5, 9, 13, 11, 4, 6, 8, 15, 12, 10, 14, 1, 2, 3]
marker(number) = markers[number % 15 + 1]
of(b, value) = column(1) == b ? value : NaN

text_grey = '#444444'
# In pixels; lines of text make the foot taller.
foot = 84 + 17 * n_notes
height = 442 + foot
up(y) = 1 - y / (height + 0.0)
set logscale x 2
set logscale y 10
set border 3 lc rgb '#666666'
set style line 100 lc rgb '#dddddd' lw 1
set grid xtics ytics ls 100
set tics nomirror scale 0.5
set xtics ()
do for [power = -10:40] {
    set xtics add ((power < 0 ? sprintf('1/%d', 2 ** -power) : sprintf('%d', 2 ** power)) 2.0 ** power)
}
decades = log10(y_high / y_low)
set ytics ()
do for [power = -6:9] {
    do for [factor in (decades < 2.5 ? '1 2 5' : '1')] {
        set ytics add (sprintf('%g', factor * 10.0 ** power) factor * 10.0 ** power)
    }
}
set xlabel 'FLOPs per byte of operands' noenhanced
set ylabel 'GFLOP/s (median)' noenhanced
left = x_low / 1.3
right = x_high * 1.3
bottom = y_low / 1.4
# Room for two rows of names above the roof: no point lies there. The plot is 324 units high.
top = y_high * (y_high / bottom) ** (44 / 280.0)
row(n) = peak * (top / bottom) ** ((n == 1 ? 12 : 32) / 324.0)
set xrange [left:right]
set yrange [bottom:top]
many = n_backends > 8
key_font = many ? ',9.5' : ',12'
set key at screen 0.5,up(64) center top horizontal Left reverse noenhanced samplen 1 width 1 maxrows (many ? 3 : 2) font key_font
set lmargin at screen 0.12
set rmargin at screen gemm > 0 ? 0.92 : 0.98
set tmargin at screen up(120)
set bmargin at screen up(height - foot)
set label 1 title at screen 0.5,up(22) center noenhanced font ',15'
set label 2 constants at screen 0.5,up(50) center noenhanced tc rgb text_grey
do for [i = 1:n_notes] { set label 100 + i notes[i] at screen 0.012,up(height - 11 - 17 * (n_notes - i)) left noenhanced font ',9' tc rgb text_grey }

# The slope begins where it enters the picture, and meets the flat roof at the ridge.
ridge = peak / read
enters = read * left > bottom ? left : bottom / read
set arrow 1 from enters,read * enters to ridge,peak nohead lw 1.8 lc rgb '#333333'
set arrow 2 from ridge,peak to right,peak nohead lw 1.8 lc rgb '#333333'
# A character of the names is some 6.5 units wide; the plot is 720 or more.
wide(characters) = (right / left) ** (6.5 * characters / 720)
set label 6 read_label at ridge,row(1) left noenhanced font ',10'
beside = ridge * wide(strlen(read_label) + strlen(peak_label) + 2) < right
set label 5 peak_label at right,row(beside ? 1 : 2) right noenhanced font ',10'

# What a library and the caches reach: the library's line is named on the margin, the slopes where
# they meet the roof, each left of the one before.
if (gemm > 0) {
    set arrow 3 from gemm / read,gemm to right,gemm nohead lw 1 dt 2 lc rgb '#777777'
    set label 7 "GEMM\n".gemm_label at right,gemm offset 0.6,0.45 left noenhanced font ',9' tc rgb text_grey
}
free = ridge
do for [c = n_caches:1:-1] {
    from = cache_read[c] * left > bottom ? left : bottom / cache_read[c]
    if (cache_read[c] * from > peak) { continue }
    meets = peak / cache_read[c]
    set arrow 10 + c from from,cache_read[c] * from to meets,peak nohead lw 1 dt 2 lc rgb '#777777'
    end = meets < free / wide(1) ? meets : free / wide(1)
    free = end / wide(strlen(cache_label[c]))
    if (free > left) {
        set label 10 + c cache_label[c] at end,row(1) right noenhanced font ',9' tc rgb text_grey
    } else {
        set label 10 + c cache_label[c] at left,row(2) left noenhanced font ',9' tc rgb text_grey
    }
}

data = base.'.dat'
do for [t in 'svg png'] {
    if (t eq 'svg') {
        set terminal svg size 900,height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
    } else {
        set terminal pngcairo size 1800,2 * height fontscale 2 linewidth 2 pointscale 2 font 'DejaVu Sans,12' background '#ffffff'
    }
    set output base.'.'.t
    plot for [b = 1:n_backends] data using 2:(of(b, $3)) with points \
         ps 1 pt marker(numbers[b]) lc rgb colours[b] title names[b]
    set output
}
