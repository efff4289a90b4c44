#!/usr/bin/env python3
"""Finds the polynomials of the special function unit in what it gives of every significand.

    fit.py FOLDER > replay/interp/value/mufu_segments.inc    # FOLDER as measure_mufu writes it; needs numpy, minutes

Each segment is c0 + c1 * x + c2 * square(x) in units of 2^-40, x of 17 bits, square() as in replay/interp/value/mufu.cc, cut off to a
number of 24 bits. Least squares tell c1 and c2 but for the last units; of their neighbours the pair counts for which most values of
c0 give all results exactly. A segment without an exact solution is an error."""
import sys

import numpy

UNIT, OFFSET_BITS, SQUARER_BITS = 40, 17, 15
X = numpy.arange(1 << OFFSET_BITS, dtype=numpy.int64)


def truncated_square(y):
    total = numpy.zeros_like(y)
    for i in range(SQUARER_BITS):
        for j in range(i, SQUARER_BITS):
            column = 2 * i if i == j else i + j + 1
            if column >= SQUARER_BITS:
                total += ((y >> i) & (y >> j) & 1) << column
    return total >> SQUARER_BITS


SQUARE = truncated_square(X >> (OFFSET_BITS - SQUARER_BITS))


def interval(results):
    """The values that are cut off to these results, lowest and highest."""
    exponent = (results >> 23).astype(numpy.int64) - 127 - 23 + UNIT
    significand = ((results & 0x7FFFFF) | 0x800000).astype(numpy.int64)
    significand[results == 0] = 0
    up, down = numpy.maximum(exponent, 0), numpy.clip(-exponent, 0, 40)  # of zero the exponent says nothing
    low = numpy.where(exponent >= 0, significand << up, (significand + (1 << down) - 1) >> down)
    return low, low + (1 << up) - 1


def fit(name, number, results, x, step, dropped):
    """c0, c1, c2 of one segment; results are those of the offsets x. Only multiples of `step` are tried for c1 and c2, and the
    value loses its lowest `dropped` bits before it is cut off to a number."""
    square = SQUARE[x]
    low, high = interval(results)
    high = high | ((1 << dropped) - 1)
    value = results.view(numpy.float32).astype(numpy.float64) * 2.0**UNIT
    design = numpy.stack([numpy.ones(len(x)), x.astype(float), square.astype(float)], 1)
    guess = numpy.linalg.lstsq(design, value, rcond=None)[0]
    best = None
    for c2 in (round(guess[2] / step) * step + k * step for k in range(-6, 7)):
        rest_low, rest_high = low - c2 * square, high - c2 * square
        for c1 in (round(guess[1] / step) * step + k * step for k in range(-4, 5)):
            first, last = int((rest_low - c1 * x).max()), int((rest_high - c1 * x).min())
            if best is None or last - first > best[1] - best[0]:
                best = first, last, c1, c2
    first, last, c1, c2 = best
    if last < first:
        sys.exit(f"{name}: segment {number}: no polynomial gives all results, {first - last} off")
    # Of those that do, the roundest.
    c0 = max(range(first, min(last, first + 65536) + 1), key=lambda v: v & -v if v else 1 << 62)
    return c0, c1, c2


def segments(folder, name):
    bits = numpy.fromfile(f"{folder}/{name}.bits", dtype=numpy.uint32)
    if name == "ex2":
        bits -= numpy.uint32(1 << 23)  # 2^(1 + x) was measured, the table has 2^x
    if name == "rcp":  # 128 segments of 16 bits
        return [fit(name, k, part, X[::2], 1, 0) for k, part in enumerate(bits.reshape(128, -1))]
    if name == "tanh":  # by octave
        found = []
        for octave, chosen in enumerate((0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3)):
            part = bits[octave << 23:(octave + 1) << 23].reshape(-1, 1 << (6 - chosen))
            if (part != part[:, :1]).any():
                sys.exit(f"tanh: octave {octave}: bits behind the offset count")
            found += [fit(name, len(found) + k, one, X, 1, 0) for k, one in enumerate(part[:, 0].reshape(1 << chosen, -1))]
        return found
    # The logarithm has 36 bits of fraction, the sine 37.
    step, dropped = {"lg2": (4, 4), "sin": (8, 3), "ex2": (2, 0)}.get(name, (1, 0))
    found = []
    for k, part in enumerate(bits.reshape(-1, 1 << OFFSET_BITS)):
        # Of one, rsq and lg2 are exact whatever the polynomial says.
        skip = 1 if k == 0 and name in ("rsq", "lg2") else 0
        found.append(fit(name, k, part[skip:], X[skip:], step, dropped))
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("// The polynomials of the special function unit; found by tests/mufu/fit.py from what an H200 gives. c0, c1, c2 of each segment.")
    for name in ("rcp", "rsq", "sqrt", "ex2", "lg2", "sin", "tanh"):
        print(f"constexpr Segment {name}_segments[] = {{")
        line = "   "
        for row in segments(sys.argv[1], name):
            text = " {%d, %d, %d}," % row
            if len(line) + len(text) > 130:
                print(line)
                line = "   "
            line += text
        print(line + "\n};", flush=True)


if __name__ == "__main__":
    main()
