"""Statements and expressions at random, for the kernels of generate.py."""
import re

from operations import OPERATIONS

TYPES = {"i": "int", "u": "unsigned", "l": "long long", "q": "unsigned long long", "f": "float", "d": "double", "h": "__half2",
         "b": "__nv_bfloat162", "p": "bool"}
OUT_WORDS = 32  # a thread

BY_TYPE = {t: [] for t in TYPES}
for line in OPERATIONS.strip().splitlines():
    result, text = line.split(" ", 1)
    BY_TYPE[result].append((text, set(re.findall(r"\{([a-z])\}", text))))


def pick_texts(rng, text):
    """A template with its choices made and its literals filled in; operands stay."""
    text = re.sub(r"\{([^{}]*\|[^{}]*)\}", lambda m: rng.choice(split_choices(m[1])), text)
    return re.sub(r"\{(-?\d+)\.\.(\d+)\}", lambda m: str(rng.randint(int(m[1]), int(m[2]))), text)


def split_choices(text):
    return text.split("|") if text != "|" else [text]


class Body:
    """Statements of one kernel or device function. `mask` is the text of the lanes that are known to come to a place together,
    None where they are not known; `uniform` says that all threads of the CTA come there."""

    def __init__(self, rng, types, functions, kernel):
        self.rng, self.types, self.functions, self.kernel = rng, types, functions, kernel
        self.lines, self.indent, self.names, self.variables = [], 1, 0, {t: [] for t in TYPES}
        self.loops = 0  # around this place
        self.full = False  # warps are whole, and nobody has returned
        self.budget = rng.randint(6, 26)
        self.ops = {t: [text for text, uses in BY_TYPE[t] if uses <= types] for t in TYPES}

    def put(self, text):
        self.lines.append("  " * self.indent + text)

    def name(self, stem):
        self.names += 1
        return f"{stem}{self.names}"

    # --- expressions
    def literal(self, t):
        rng = self.rng
        if t in "iu":
            value = rng.choice([rng.getrandbits(32), rng.randint(0, 40), 1 << rng.randint(0, 31), 0xffffffff, 0x7fffffff])
            return f"{TYPES[t]}({value}u)"
        if t in "lq":
            value = rng.choice([rng.getrandbits(64), rng.randint(0, 99), 1 << rng.randint(0, 63)])
            return f"(({TYPES[t]}){value}ull)"
        number = rng.choice([0.0, 1.0, -1.0, 0.5, 3.25, 1e-3, -7e4, rng.uniform(-2, 2), rng.uniform(-1e6, 1e6)])
        if t == "f":
            return f"({number!r}f)"
        if t == "d":
            return f"({number!r})"
        if t in "hb":
            return f"{'half2_of' if t == 'h' else 'bfloat162_of'}({rng.getrandbits(32)}u)"
        return rng.choice(["true", "false"])

    def special(self, t):
        return self.rng.choice({"i": ["int(thread)", "pi", "int(threadIdx.x)"], "u": ["thread", "pu", "blockIdx.x", "lane"],
                                "q": ["pq"], "f": ["pf"], "d": ["pd"], "l": ["(long long)pq"]}[t])

    def leaf(self, t):
        chance = self.rng.random()
        if chance < 0.08:
            return self.literal(t)
        if chance < 0.16 and t in "iuqfdl" and self.kernel:
            return self.special(t)
        return self.rng.choice(self.variables[t]) if self.variables[t] else self.literal(t)

    def expression(self, t, depth=2):
        if depth <= 0 or self.rng.random() < 0.12 or not self.ops[t]:
            return self.leaf(t)
        text = pick_texts(self.rng, self.rng.choice(self.ops[t]))
        return re.sub(r"\{([a-z])\}", lambda m: self.expression(m[1], depth - 1), text)

    def condition(self):
        return self.expression("p", self.rng.randint(1, 2))

    def target(self):
        """A variable that may be written, and its type."""
        t = self.rng.choice([t for t in self.types if self.variables[t]])
        return self.rng.choice(self.variables[t]), t

    # --- statements
    def assign(self, mask, uniform):
        v, t = self.target()
        self.put(f"{v} = {self.expression(t, self.rng.randint(1, 3))};")

    def block(self, count, mask, uniform):
        self.indent += 1
        for _ in range(count):
            self.statement(mask, uniform)
        self.indent -= 1

    def few(self):
        return self.rng.randint(1, 3)

    def branch(self, mask, uniform):
        if mask and self.rng.random() < 0.5:  # lanes of both sides are known
            c, m = self.name("c"), self.name("m")
            self.put(f"const bool {c} = {self.condition()};")
            self.put(f"const unsigned {m} = __ballot_sync({mask}, {c});")
            self.put(f"if ({c}) {{")
            self.without_full(self.block, self.few(), m, False)
            if self.rng.random() < 0.5:
                self.put("} else {")
                self.without_full(self.block, self.few(), f"({mask} & ~{m})", False)
        elif uniform and self.rng.random() < 0.3:  # the CTA goes one way
            self.put(f"if ((blockIdx.x + pu) & {self.rng.randint(1, 3)}) {{")
            self.block(self.few(), mask, True)
        else:
            self.put(f"if ({self.condition()}) {{")
            self.without_full(self.block, self.few(), None, False)
            if self.rng.random() < 0.5:
                self.put("} else {")
                self.without_full(self.block, self.few(), None, False)
        self.put("}")

    def without_full(self, inside, *arguments):
        full, self.full = self.full, False
        inside(*arguments)
        self.full = full

    def loop(self, mask, uniform):
        if self.loops == 2:
            return self.assign(mask, uniform)
        self.loops += 1
        k = self.name("k")
        kind = self.rng.random()
        if kind < 0.25:  # as many times for all
            times = self.rng.choice(["4", "3", "(pi & 3) + 1" if self.kernel else "5", "7"])
            self.put(f"for (int {k} = 0; {k} < {times}; ++{k}) {{")
            self.block(self.few(), mask, uniform)
        elif kind < 0.45 and mask:  # lanes leave one after the other, and those that stay are known
            n, m, c = self.name("n"), self.name("m"), self.name("c")
            self.put(f"const unsigned {n} = {self.expression('u')} & 7;")
            self.put(f"unsigned {m} = {mask};")
            self.put(f"for (unsigned {k} = 0;; ++{k}) {{")
            self.put(f"  const bool {c} = {k} < {n};")
            self.put(f"  {m} = __ballot_sync({m}, {c});")
            self.put(f"  if (!{c}) break;")
            self.without_full(self.block, self.few(), m, False)
        else:
            out = self.name("out")
            leaves = self.rng.random() < 0.3
            if kind < 0.75:
                self.put(f"for (unsigned {k} = {self.expression('u')} & {self.rng.choice([3, 7, 15])}; {k} > 0; --{k}) {{")
            elif kind < 0.9:
                self.put(f"unsigned {k} = 0;")
                self.put(f"while ({self.condition()} && ++{k} < {self.rng.randint(3, 12)}) {{")
            else:
                self.put(f"unsigned {k} = 0;")
                self.put("do {")
            self.without_full(self.block, self.few(), None, False)
            chance = self.rng.random()
            if chance < 0.3:
                self.put(f"  if ({self.condition()}) break;")
            elif chance < 0.5:
                self.put(f"  if ({self.condition()}) continue;")
            elif chance < 0.6:
                self.put(f"  for (unsigned j = 0; j < ({k} & 3); ++j) {{")
                self.put(f"    if ({self.condition()}) goto {out};")
                self.without_full(self.block, 1, None, False)
                self.put("  }")
                leaves = True
            if leaves or self.rng.random() < 0.3:
                self.without_full(self.block, 1, None, False)
            if kind >= 0.9:
                self.put(f"}} while (++{k} < {self.rng.randint(2, 8)} && {self.condition()});")
                self.put(f"{out}:;")
                self.loops -= 1
                return
            self.put("}")
            self.put(f"{out}:;")
            self.loops -= 1
            return
        self.put("}")
        self.loops -= 1

    def switch(self, mask, uniform):
        cases = self.rng.choice([3, 5, 8, 12])
        self.put(f"switch ({self.expression('u')} % {cases + 1}) {{")
        for c in range(cases):
            self.put(f"  case {c}: {{")
            self.indent += 1
            self.without_full(self.block, 1, None, False)
            self.indent -= 1
            self.put("  }" + (" break;" if self.rng.random() < 0.8 else ""))
        if self.rng.random() < 0.5:
            self.put("  default: {")
            self.indent += 1
            self.without_full(self.block, 1, None, False)
            self.indent -= 1
            self.put("  }")
        self.put("}")

    def local_array(self, mask, uniform):
        a, k = self.name("a"), self.name("k")
        t = self.rng.choice([t for t in self.types if t in "iuqfdhl"])
        size = self.rng.choice([4, 8, 16])
        self.put(f"{TYPES[t]} {a}[{size}];")
        self.put(f"for (int {k} = 0; {k} < {size}; ++{k}) {a}[{k}] = {self.expression(t, 1)};")
        for _ in range(self.few()):
            self.put(f"{a}[{self.expression('u', 1)} & {size - 1}] = {self.expression(t)};")
        v = self.rng.choice(self.variables[t]) if self.variables[t] else None
        if v:
            self.put(f"{v} = {a}[{self.expression('u', 1)} & {size - 1}];")

    def call(self, mask, uniform):
        usable = [f for f in self.functions if {f[1], *f[2]} <= self.types and self.variables[f[1]]]
        if not usable:
            return self.assign(mask, uniform)
        name, result, parameters = self.rng.choice(usable)
        v = self.rng.choice(self.variables[result])
        self.put(f"{v} = {name}({', '.join(self.expression(t, 1) for t in parameters)});")

    def load(self, mask, uniform):
        if not self.kernel:
            return self.assign(mask, uniform)
        how = self.rng.choice(["in[{}]", "__ldg(in + {})", "__ldcg(in + {})", "__ldcs(in + {})", "__ldcv(in + {})",
                               "const_cast<const volatile unsigned*>(reinterpret_cast<const unsigned*>(in))[{}]",
                               "reinterpret_cast<const unsigned char*>(in)[{}]", "reinterpret_cast<const short*>(in)[{}]",
                               "reinterpret_cast<const signed char*>(in)[{}]", "reinterpret_cast<const uint2*>(in)[{}]",
                               "reinterpret_cast<const ushort4*>(in)[{}]", "reinterpret_cast<const unsigned short*>(in)[{}]"])
        value = how.format(f"({self.expression('u', 1)} & 4095)")
        n = self.name("v")
        self.put(f"const auto {n} = {value};")
        element = self.rng.choice("xy") if "uint2" in how else self.rng.choice("xyzw")
        whole = "unsigned" in how or "short*" in how or "signed char" in how
        bits = f"unsigned({n})" if whole and "ushort4" not in how else f"unsigned({n}.{element})"
        self.fold(bits)

    def fold(self, bits):
        """Mixes 32 bits into a variable."""
        v, t = self.target()
        self.put({"i": f"{v} += int({bits});", "u": f"{v} ^= {bits};", "l": f"{v} -= (long long)int({bits});",
                  "q": f"{v} = ({v} << 7) ^ {bits};", "f": f"{v} += __uint_as_float({bits});", "d": f"{v} += int({bits});",
                  "h": f"{v} = __hadd2({v}, half2_of({bits}));", "b": f"{v} = __hmax2({v}, bfloat162_of({bits}));",
                  "p": f"{v} = {v} != (({bits} & 4) != 0);"}[t])

    def atomic(self, mask, uniform):
        if not self.kernel:
            return self.assign(mask, uniform)
        rng, e = self.rng, self.expression
        # Order does not matter: one operation a cell, and nobody reads it.
        shared = ["atomicAdd(common + {0}, {u})", "atomicMin((int*)common + 16 + {0}, {i})", "atomicMax((int*)common + 32 + {0}, {i})",
                  "atomicMin(common + 48 + {0}, {u})", "atomicMax(common + 64 + {0}, {u})", "atomicAnd(common + 80 + {0}, {u})",
                  "atomicOr(common + 96 + {0}, {u})", "atomicXor(common + 112 + {0}, {u})", "atomicInc(common + 128 + {0}, 999)",
                  "atomicDec(common + 144 + {0}, 777)", "atomicSub((int*)common + 160 + {0}, {i})",
                  "atomicAdd((float*)common + 176 + {0}, float({u} & 15))",
                  "atomicAdd((unsigned long long*)common + 96 + {0}, {q64})", "atomicMax((long long*)common + 112 + {0}, {l64})",
                  "atomicMin((unsigned long long*)common + 128 + {0}, {q64})",
                  "atomicAnd((unsigned long long*)common + 144 + {0}, {q64})",
                  "atomicXor((unsigned long long*)common + 160 + {0}, {q64})",
                  "atomicAdd((double*)common + 176 + {0}, double({u} & 7))",
                  "atomicAdd((__half2*)common + 384 + {0}, __float2half2_rn(float({u} & 1)))",
                  "atomicAdd((__nv_bfloat162*)common + 400 + {0}, __float2bfloat162_rn(float({u} & 1)))",
                  "atomicAdd(tally + {0}, {u})", "atomicMax((int*)tally + 16 + {0}, {i})", "atomicXor(tally + 32 + {0}, {u})",
                  "atomicInc(tally + 48 + {0}, 321)", "atomicOr(tally + 64 + {0}, {u})", "atomicMin(tally + 80 + {0}, {u})",
                  "atomicAdd((float*)tally + 96 + {0}, float({u} & 3))",
                  "atomicAdd((unsigned long long*)tally + 56 + {0}, {q64})",
                  "tally_max(tally + 144 + {0}, {u})", "tally_max(common + 416 + {0}, {u})"]
        # The thread's own cells: what comes back is known as well.
        mine = ["atomicAdd(own + {0}, {u})", "atomicExch(own + {0}, {u})", "atomicCAS(own + {0}, {u}, {u})", "atomicInc(own + {0}, {u})",
                "atomicDec(own + {0}, {u})", "unsigned(atomicMin((int*)own + {0}, {i}))", "unsigned(atomicMax((int*)own + {0}, {i}))",
                "atomicAnd(own + {0}, {u})", "atomicOr(own + {0}, {u})", "atomicXor(own + {0}, {u})", "atomicMax(own + {0}, {u})",
                "__float_as_uint(atomicAdd((float*)own + {0}, {f}))", "__float_as_uint(atomicExch((float*)own + {0}, {f}))",
                "unsigned(atomicAdd((unsigned long long*)own + {1}, {q64}))", "unsigned(atomicCAS((unsigned long long*)own + {1}, {q64}, {q64}))",
                "unsigned(atomicExch((unsigned long long*)own + {1}, {q64}) >> 32)", "unsigned(atomicMin((long long*)own + {1}, {l64}))",
                "bits_h(atomicAdd((__half2*)own + {0}, half2_of({u})))", "unsigned(__double2hiint(atomicAdd((double*)own + {1}, {d64})))"]
        returns = rng.random() < 0.5
        text = rng.choice(mine if returns else shared)
        text = text.replace("{0}", f"({e('u', 1)} & {7 if returns else 15})").replace("{1}", f"({e('u', 1)} & 3)")
        has = self.types
        text = re.sub(r"\{([a-z])64\}", lambda m: e(m[1], 1) if m[1] in has else
                      {"q": f"((unsigned long long){e('u', 1)} << {rng.randint(0, 32)})", "l": f"((long long){e('i', 1)} * 65537)",
                       "d": f"double({e('i', 1)})"}[m[1]], text)
        text = re.sub(r"\{([a-z])\}", lambda m: e(m[1], 1) if m[1] in has else f"float({e('i', 1)})", text)
        if returns:
            self.fold(text)
        else:
            self.put(text + ";")

    def warp_wide(self, mask, uniform):
        if not mask:
            return self.atomic(mask, uniform)
        rng, e = self.rng, self.expression
        u, full = e("u", 1), self.full
        choices = [f"__ballot_sync({mask}, {self.condition()})", f"__any_sync({mask}, {self.condition()})",
                   f"__all_sync({mask}, {self.condition()})", f"__match_any_sync({mask}, {u} & 7)",
                   f"__match_any_sync({mask}, ((unsigned long long)({u} & 3) << 40))",
                   f"match_all({mask}, {u} & 1)",
                   f"__reduce_{rng.choice(['add', 'min', 'max', 'and', 'or', 'xor'])}_sync({mask}, {u})",
                   f"unsigned(__reduce_{rng.choice(['add', 'min', 'max'])}_sync({mask}, {e('i', 1)}))",
                   f"__shfl_sync({mask}, {u}, __ffs({mask}) - 1)",
                   f"__shfl_sync({mask}, {u}, 31 - __clz({mask}))",
                   f"__shfl_sync({mask}, {u}, __fns({mask}, 0, 1 + ({e('u', 1)} % __popc({mask}))))"]
        if full:
            width = rng.choice([32, 32, 16, 8, 4, 2])
            choices += [f"__shfl_sync({mask}, {u}, {e('i', 1)}, {width})", f"__shfl_up_sync({mask}, {u}, {rng.randint(0, 31)}, {width})",
                        f"__shfl_down_sync({mask}, {u}, {e('u', 1)} & 31, {width})",
                        f"__shfl_xor_sync({mask}, {u}, {rng.randint(0, 31)}, {width})",
                        f"unsigned(__shfl_xor_sync({mask}, (unsigned long long){u} * 0x10001ull, {rng.randint(1, 31)}) >> 9)"] * 2
        self.fold(rng.choice(choices))

    def exchange(self, mask, uniform):
        """Through shared memory, between barriers."""
        if not uniform or not self.kernel:
            return self.warp_wide(mask, uniform)
        rng = self.rng
        kind, cell = rng.choice([("unsigned", 4), ("unsigned char", 1), ("short", 2), ("uint2", 8), ("uint4", 16), ("float", 4),
                                 ("double", 8), ("unsigned long long", 8)])
        u = [self.expression("u", 1) for _ in range(4)]
        value = {"uint2": f"make_uint2({u[0]}, {u[1]})", "uint4": f"make_uint4({u[0]}, {u[1]}, {u[2]}, {u[3]})",
                 "float": f"__uint_as_float({u[0]})", "double": f"double({u[0]})"}.get(kind, f"({kind})({u[0]})")
        t = self.name("t")
        index = rng.choice([f"(({self.expression('u', 1)}) % threads)", f"((local * {rng.choice([3, 5, 7, 16, 33])}) % threads)",
                            "(threads - 1 - local)", f"((local + {rng.randint(1, 31)}) % threads)"])
        self.put(f"{kind}* const {t} = reinterpret_cast<{kind}*>(tile);")
        self.put(f"{t}[local] = {value};")
        self.put(rng.choice(["__syncthreads();", "__syncthreads();", "__syncthreads();",
                             f"{{ const int n = __syncthreads_count({self.condition()}); if (n & 1) {self.first('u')} ^= n; }}",
                             f"if (__syncthreads_or({self.condition()})) {self.first('u')} += 3;",
                             f"if (__syncthreads_and({self.condition()})) {self.first('u')} -= 5;"]))
        v = self.name("v")
        self.put(f"const {kind} {v} = {t}[{index}];")
        self.put("__syncthreads();")
        self.fold({"uint2": f"({v}.x + {v}.y)", "uint4": f"({v}.x ^ {v}.y * 3 ^ {v}.z ^ {v}.w * 5)", "float": f"__float_as_uint({v})",
                   "double": f"unsigned(__double2hiint({v}))"}.get(kind, f"unsigned({v})"))

    def first(self, t):
        return self.variables[t][0]

    def leave(self, mask, uniform):
        """Some threads return early, with what they have."""
        if not self.kernel or self.loops or self.indent > 1 or not mask:
            return self.loop(mask, uniform)
        c = self.name("c")
        self.put(f"const bool {c} = ({self.condition()}) && (({self.expression('u', 1)} & {self.rng.choice([1, 3, 7])}) != 0);")
        self.put(f"lanes = __ballot_sync(lanes, !{c});")
        self.put(f"if ({c}) {{")
        self.indent += 1
        self.store()
        self.put("return;")
        self.indent -= 1
        self.put("}")
        self.full, self.whole = False, False

    def matrix(self, mask, uniform):
        if not self.full or self.loops or not self.kernel:
            return self.exchange(mask, uniform)
        rng = self.rng
        r = [self.name("w") for _ in range(4)]
        name, kinds, a, b, c = rng.choice([
            ("m16n8k16", "f32.f16.f16.f32", 4, 2, 4), ("m16n8k16", "f16.f16.f16.f16", 4, 2, 2), ("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4),
            ("m16n8k8", "f32.f16.f16.f32", 2, 1, 4), ("m16n8k16", "s32.s8.s8.s32", 2, 1, 4), ("m16n8k32", "s32.u8.s8.s32", 4, 2, 4),
            ("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4), ("m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4)])
        floats = kinds.startswith("f32")
        d = ", ".join(f"%{k}" for k in range(c))
        aa = ", ".join(f"%{c + k}" for k in range(a))
        bb = ", ".join(f"%{c + a + k}" for k in range(b))
        reg = "f" if floats else "r"
        for n in r[:c]:
            initial = f"float({self.expression('i', 1)} >> 20)" if floats else self.expression("u", 1)
            self.put(f"{'float' if floats else 'unsigned'} {n} = {initial};")
        small = "small_bf16" if "bf16" in kinds else "small_tf32" if "tf32" in kinds else "small_f16" if "f16" in kinds else ""
        inputs = ", ".join(f'"r"({small}({self.expression("u", 1)}))' for _ in range(a + b))
        outputs = ", ".join(f'"+{reg}"({n})' for n in r[:c])
        self.put(f'asm volatile("mma.sync.aligned.{name}.row.col.{kinds} {{{d}}}, {{{aa}}}, {{{bb}}}, {{{d}}};" '
                 f": {outputs} : {inputs});")
        for n in r[:c]:
            self.fold(f"__float_as_uint({n})" if floats else n)

    def copy_async(self, mask, uniform):
        """Global to shared memory without registers."""
        if not uniform or not self.kernel:
            return self.load(mask, uniform)
        size = self.rng.choice([4, 8, 16])
        kind = {4: "unsigned", 8: "uint2", 16: "uint4"}[size]
        self.put(f"asm volatile(\"cp.async.ca.shared.global [%0], [%1], {size};\" :: "
                 f"\"r\"((unsigned)__cvta_generic_to_shared(reinterpret_cast<{kind}*>(tile) + local)), "
                 f"\"l\"(reinterpret_cast<const {kind}*>(in) + ({self.expression('u', 1)} & 4095)) : \"memory\");")
        self.put("asm volatile(\"cp.async.commit_group;\\ncp.async.wait_group 0;\" ::: \"memory\");")
        self.put("__syncthreads();")
        v = self.name("v")
        self.put(f"const {kind} {v} = reinterpret_cast<{kind}*>(tile)[threads - 1 - local];")
        self.put("__syncthreads();")
        self.fold(v if size == 4 else f"({v}.x + 7 * {v}.y)")

    STATEMENTS = [(assign, 34), (branch, 14), (loop, 10), (switch, 4), (local_array, 4), (call, 6), (load, 8), (atomic, 8), (warp_wide, 8),
                  (exchange, 7), (leave, 2), (matrix, 2), (copy_async, 1)]

    def statement(self, mask, uniform):
        self.budget -= 1
        if self.budget < 0:
            return self.assign(mask, uniform)
        choices, weights = zip(*self.STATEMENTS)
        self.rng.choices(choices, weights)[0](self, mask, uniform)

    # --- results
    def bits(self, v, t):
        return {"i": [f"unsigned({v})"], "u": [v], "l": [f"unsigned({v})", f"unsigned({v} >> 32)"],
                "q": [f"unsigned({v})", f"unsigned({v} >> 32)"], "f": [f"__float_as_uint({v})"],
                "d": [f"unsigned(__double2loint({v}))", f"unsigned(__double2hiint({v}))"], "h": [f"bits_h({v})"],
                "b": [f"bits_b({v})"], "p": [f"unsigned({v})"]}[t]

    def store(self):
        words = [w for t in TYPES for v in self.variables[t] for w in self.bits(v, t)][:OUT_WORDS]
        k = 0
        while k < len(words):
            if k % 4 == 0 and k + 4 <= len(words):
                self.put(f"reinterpret_cast<uint4*>(out)[{k // 4}] = make_uint4({', '.join(words[k:k + 4])});")
                k += 4
            else:
                self.put(f"out[{k}] = {words[k]};")
                k += 1
