#!/usr/bin/env python3
"""Writes CUDA kernels at random, the same ones for the same seed.

    generate.py SEED COUNT > FILE.cu

Every kernel is r<seed>_<number>_<x>_<y>, for a CTA of x * y threads and a grid of two CTAs. It reads `in`, and writes what it
has computed to its thread's words of `out`; memory that threads share is written by atomics whose result does not depend on
their order, and shared memory between barriers. So the bytes it leaves depend on its machine code alone. What C++ leaves
undefined (overflow, say) is no obstacle: the code is compared with itself on two machines."""
import argparse
import random
import signal

from body import OUT_WORDS, TYPES, Body
from operations import PRELUDE

SHAPES = [(32, 1), (64, 1), (96, 1), (128, 1), (16, 4), (8, 8), (40, 1), (7, 9)]


def declare(body, t, count, value):
    for _ in range(count):
        v = body.name(t)
        body.put(f"{TYPES[t]} {v} = {value(t)};")
        body.variables[t].append(v)


def choose_types(rng):
    types = {"i", "u", "p"}
    for t, chance in (("f", 0.7), ("d", 0.3), ("h", 0.3), ("b", 0.2), ("l", 0.35), ("q", 0.4)):
        if rng.random() < chance:
            types.add(t)
    return types


def sorted_types(types):
    return [t for t in TYPES if t in types]


def function(rng, name, functions):
    types = choose_types(rng)
    body = Body(rng, OrderedTypes(types), functions, False)
    body.budget = rng.randint(2, 8)
    result = rng.choice([t for t in body.types if t != "p"])
    parameters = [rng.choice([t for t in body.types if t != "p"]) for _ in range(rng.randint(1, 4))]
    for t in parameters:
        body.variables[t].append(body.name(t))
    arguments = [v for t in TYPES for v in body.variables[t]]
    order = {t: iter(body.variables[t]) for t in TYPES}
    signature = ", ".join(f"{TYPES[t]} {next(order[t])}" for t in parameters)
    assert len(arguments) == len(parameters)
    for t in body.types:
        if not body.variables[t]:
            declare(body, t, 1, body.literal)
    recursive = rng.random() < 0.2
    if recursive:
        signature = f"{signature}, unsigned depth = 3"
        body.put("if (depth == 0) return " + body.expression(result, 1) + ";")
    for _ in range(rng.randint(1, 4)):
        body.statement(None, False)
    if recursive:
        again = ", ".join(body.leaf(t) for t in parameters)
        body.put(f"if ({body.condition()}) {body.variables[result][0]} = {name}({again}, depth - 1);")
    body.put(f"return {body.expression(result, 2)};")
    inline = "__noinline__" if rng.random() < 0.8 or recursive else "__forceinline__"
    return [f"__device__ {inline} {TYPES[result]} {name}({signature}) {{", *body.lines, "}", ""], (name, result, parameters)


class OrderedTypes(list):
    """The types of a body: a list in fixed order that compares as a set."""

    def __init__(self, types):
        super().__init__(sorted_types(types))

    def __ge__(self, other):
        return set(other) <= set(self)


def kernel(rng, name, shape, functions):
    body = Body(rng, OrderedTypes(choose_types(rng)), functions, True)
    threads = shape[0] * shape[1]
    body.full = threads % 32 == 0
    bounds = f"__launch_bounds__({threads}{', ' + str(rng.choice([8, 12])) if rng.random() < 0.1 else ''}) "
    lines = [f'extern "C" __global__ void {bounds}{name}(', "    const uint4* in, unsigned* out, unsigned* own, unsigned* common, "
             "int pi, unsigned pu, float pf, double pd, unsigned long long pq) {",
             f"  __shared__ uint4 tile[{threads}];", "  __shared__ unsigned tally[160];",
             f"  constexpr unsigned threads = {threads};",
             f"  const unsigned local = threadIdx.x + threadIdx.y * {shape[0]}, thread = blockIdx.x * threads + local, lane = local & 31;",
             f"  unsigned lanes = {'~0u' if threads % 32 == 0 else '(local | 31) < threads ? ~0u : (1u << threads % 32) - 1'};",
             "  for (unsigned k = local; k < 160; k += threads) tally[k] = k;", "  __syncthreads();",
             f"  out += thread * {OUT_WORDS}, own += thread * 8;"]
    number = rng.randint(0, 99)

    def initial(t):
        nonlocal number
        number += 1
        at = f"in[(thread * 5 + {number}) & 4095]"
        return {"i": f"int({at}.x)", "u": f"{at}.y", "l": f"(long long)(((unsigned long long){at}.z << 32) | {at}.w)",
                "q": f"((unsigned long long){at}.w << 32) | {at}.x", "f": f"__uint_as_float({at}.z)",
                "d": f"__hiloint2double({at}.w, {at}.y)", "h": f"half2_of({at}.x)", "b": f"bfloat162_of({at}.z)",
                "p": f"({at}.y & 16) != 0"}[t]

    for t in body.types:
        declare(body, t, 1 if t == "p" else rng.randint(1, 4 if t in "iuf" else 3), initial)
    body.whole = True
    for _ in range(rng.randint(5, 14)):
        body.statement("lanes", body.whole)
    body.store()
    if body.whole:
        body.put("__syncthreads();")
        body.put("for (unsigned k = local; k < 160; k += threads) atomicAdd(common + 512 + k, tally[k]);")
    return lines + body.lines + ["}", ""]


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description="Writes CUDA kernels at random, the same ones for the same seed.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    seed, count = arguments.seed, arguments.count
    rng = random.Random(seed)
    table = ", ".join(f"{rng.getrandbits(32)}u" for _ in range(64))
    lines = [f"// Written by generate.py {seed} {count}.", PRELUDE, f"__constant__ unsigned table[64] = {{{table}}};", """
__device__ __forceinline__ unsigned match_all(unsigned lanes, unsigned v) {
  int all; const unsigned m = __match_all_sync(lanes, v, &all); return m + all;
}
__device__ __forceinline__ unsigned small_f16(unsigned v) { return (v & 0x8fff8fffu) | 0x30003000u; }
__device__ __forceinline__ unsigned small_bf16(unsigned v) { return (v & 0x81ff81ffu) | 0x3e003e00u; }
__device__ __forceinline__ unsigned small_tf32(unsigned v) { return (v & 0x807fe000u) | (0x3e000000u + (v & 0x0f800000u) / 8); }
__device__ void tally_max(unsigned* at, unsigned v) {
  unsigned seen = *reinterpret_cast<volatile unsigned*>(at);
  while ((v ^ 0x5555u) > (seen ^ 0x5555u)) {
    const unsigned before = atomicCAS(at, seen, v);
    if (before == seen) return;
    seen = before;
  }
}
"""]
    functions = []
    for k in range(max(2, count // 8)):
        text, entry = function(rng, f"call{k}", functions[-6:])
        lines += text
        functions.append(entry)
    for k in range(count):
        shape = rng.choice(SHAPES)
        lines += kernel(rng, f"r{seed}_{k}_{shape[0]}_{shape[1]}", shape, rng.sample(functions, min(4, len(functions))))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
