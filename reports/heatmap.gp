# SPDX-License-Identifier: Apache-2.0
# heatmap.gp - attention weights head by head, and |backend - reference| of each backend.
#
# gnuplot NAME.def.gp heatmap.gp, in the folder that holds NAME.dat; draws NAME_0.svg and .png of the
# reference's weights, NAME_1, NAME_2 ... of the backends. The data file has a block (two blank lines
# between blocks) for each picture, in it a part (one blank line) for each head, in it a line a cell:
#   head query key value wrong
# value: NaN where the key is not allowed; wrong: 1 where a weight is not the finite number it should be.
set encoding utf8
data = base.'.dat'
text_grey = '#444444'
greater(a, b) = a > b ? a : b
lesser(a, b) = a < b ? a : b

# All is placed in pixels from the top left. A cell has room for a line of small text.
cell = lesser(greater(floor(170.0 / greater(n_queries, n_keys)), 11), 32)
columns = int(greater(1, floor(sqrt(0.75 * n_heads) + 0.5)))
rows = (n_heads + columns - 1) / columns
longest_query = 3
do for [i = 1:n_queries] { longest_query = greater(longest_query, strlen(queries[i])) }
longest_key = 3
do for [j = 1:n_keys] { longest_key = greater(longest_key, strlen(keys[j])) }
left = 14 + 5.8 * longest_query
above = 122
step_x = n_keys * cell + 14
step_y = n_queries * cell + 24
width = greater(left + columns * step_x, 480)
height = above + rows * step_y + 5.8 * longest_key + 32
corner_x(h) = left + (int(h) % columns) * step_x
corner_y(h) = above + (int(h) / columns) * step_y
at_x(h, key) = corner_x(h) + (key + 0.5) * cell
at_y(h, query) = corner_y(h) + (query + 0.5) * cell

unset border
unset tics
unset key
unset colorbox
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen 1
set bmargin at screen 0
set xrange [0:width]
set yrange [height:0]
set palette maxcolors 64
do for [h = 0:n_heads - 1] {
    x = corner_x(h)
    y = corner_y(h)
    # What no cell covers is not allowed: hatched, which no colour is mistaken for, nor any grey.
    if (hatched) {
        set object h + 1 rect from x, y to x + n_keys * cell, y + n_queries * cell \
            fc rgb '#777777' fs pattern 4 border lc rgb '#777777' behind
    } else {
        set object h + 1 rect from x, y to x + n_keys * cell, y + n_queries * cell \
            fs empty border lc rgb '#777777' behind
    }
    set label h + 1 sprintf('head %d', h) at x, y - 8 left noenhanced font ',9'
}
n = n_heads
do for [h = 0:n_heads - 1] {
    if (h % columns == 0) {
        do for [i = 1:n_queries] {
            n = n + 1
            set label n queries[i] at left - 5, at_y(h, i - 1) right noenhanced font ',8'
        }
    }
    if (h + columns >= n_heads) {
        do for [j = 1:n_keys] {
            n = n + 1
            set label n keys[j] at at_x(h, j - 1), corner_y(h) + n_queries * cell + 5 \
                rotate by 90 right noenhanced font ',8'
        }
    }
}
set label n + 1 at 12, 18 left noenhanced font ',12'
set label n + 2 at 12, 37 left noenhanced font ',9' tc rgb text_grey
set label n + 3 footer1 at 12, height - 26 left noenhanced font ',8' tc rgb text_grey
set label n + 4 footer2 at 12, height - 12 left noenhanced font ',8' tc rgb text_grey
set label n + 5 at left, 90 left noenhanced font ',8' tc rgb text_grey

# The colour bar: 64 steps of 5 pixels, with tics at the values of a list.
bar_width = 320
bar_x(t) = left + t * bar_width
set object n_heads + 1 rect from left, 54 to left + bar_width, 64 fs empty border lc rgb '#444444' front
first_tic = n + 6

# viridis and magma (N. Smith and S. van der Walt, 2015, CC0): even in lightness for every eye and in
# grey. Two, so that a weight is not taken for a difference.
viridis = '#440154 #472c7a #3b518b #2c718e #21908d #27ad81 #5cc863 #aadc32 #fde725'
magma = '#000004 #1c1044 #4f127b #812581 #b5367a #e55964 #fb8761 #fec287 #fcfdbf'
colour(k) = word(map, k + 1)

do for [g = 0:n_grids - 1] {
    map = g == 0 ? viridis : magma
    set palette defined (0 colour(0), 1 colour(1), 2 colour(2), 3 colour(3), 4 colour(4), 5 colour(5), \
                         6 colour(6), 7 colour(7), 8 colour(8))
    from = g == 0 ? 0 : low
    to = g == 0 ? sqrt(top) : high
    set cbrange [from:to]
    # A difference of 0, or under the range, has the range's darkest colour.
    shade(v) = v != v ? NaN : g == 0 ? sqrt(v) : v > 0 && log10(v) > low ? log10(v) : low
    do for [k = 0:19] { unset label first_tic + k }
    k = 0
    if (g == 0) {
        do for [tic in '0 0.01 0.05 0.1 0.2 0.4 0.6 0.8 1'] {
            t = sqrt(real(tic)) / to
            if (t < 0.92) {
                set label first_tic + k tic at bar_x(t), 74 center noenhanced font ',8'
                k = k + 1
            }
        }
        set label first_tic + k sprintf('%.3g', top) at bar_x(1), 74 center noenhanced font ',8'
    } else {
        do for [power = low:high] {
            if (high - low < 10 || (power - low) % 2 == 0) {
                set label first_tic + k sprintf('1e%d', power) at bar_x((power - low) / (high - low + 0.0)), 74 \
                    center noenhanced font ',8'
                k = k + 1
            }
        }
    }
    set label n + 1 titles[g + 1]
    set label n + 2 notes[g + 1]
    set label n + 5 scales[g + 1]
    # An image needs two cells each way.
    thin = n_queries < 2 || n_keys < 2
    do for [t in 'svg png'] {
        if (t eq 'svg') {
            set terminal svg size width, height dynamic font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff'
        } else {
            set terminal pngcairo size 1.5 * width, 1.5 * height fontscale 1.5 linewidth 1.5 font 'DejaVu Sans,10' background '#ffffff'
        }
        set output sprintf('%s_%d.%s', base, g, t)
        plot for [h = 0:thin ? -1 : n_heads - 1] data index g every :::h::h \
                 using (at_x($1, $3)):(at_y($1, $2)):(shade($4)) with image title '', \
             for [k = 1:thin] data index g \
                 using (at_x($1, $3)):(at_y($1, $2)):(cell / 2.0):(cell / 2.0):(shade($4)) \
                 with boxxyerror fs solid noborder fc palette title '', \
             for [k = 1:wrong[g + 1]] data index g \
                 using (at_x($1, $3)):($5 == 1 ? at_y($1, $2) : NaN) with points pt 2 ps 0.5 lw 1.2 lc rgb '#000000' title '', \
             [u = 0:63:1] [v = 0:1:1] '++' \
                 using (left + 2.5 + $1 * 5):(56.5 + $2 * 5):(from + (to - from) * $1 / 63.0) with image title ''
        set output
    }
}
