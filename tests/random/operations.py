"""Expressions that generate.py draws from: one line an operation, the type of its result first.

Types: i int, u unsigned, l long long, q unsigned long long, f float, d double, h __half2, b __nv_bfloat162, p bool.
{i} stands for an expression of that type, {3..9} for a literal number, {A|B} for one of several texts. No integer is divided
by a zero that the compiler could see: it would leave the result undefined."""

OPERATIONS = """
i ({i} + {i})
i ({i} - {i})
i ({i} * {i})
i ({i} * {-9..300})
i ({i} + {i} * {i})
i ({i} / ({i} | 1))
i ({i} % ({i} | 1))
i ({i} / {3..1000})
i ({i} << ({u} & 31))
i ({i} >> ({u} & 31))
i ({i} >> {1..31})
i ({i} & {i})
i ({i} | {i})
i ({i} ^ ~{i})
i (-{i})
i abs({i})
i min({i}, {i})
i max({i}, {i})
i ({p} ? {i} : {i})
i __mulhi({i}, {i})
i __mul24({i}, {i})
i __hadd({i}, {i})
i __rhadd({i}, {i})
i __clz({i})
i __ffs({i})
i __popc({u})
i __clzll({l})
i __ffsll({l})
i __popcll({q})
i __dp4a({i}, {i}, {i})
i {__dp2a_lo|__dp2a_hi}({i}, {i}, {i})
i (int)(signed char){i}
i (int)(short){u}
i (int)((int)({u} << {0..20}) >> {5..31})
i {__viaddmax_s32|__viaddmin_s32|__viaddmax_s32_relu|__viaddmin_s32_relu|__vimax3_s32|__vimin3_s32|__vimax3_s32_relu|__vimin3_s32_relu}({i}, {i}, {i})
i {__vimax_s32_relu|__vimin_s32_relu}({i}, {i})
i {__float2int_rn|__float2int_rz|__float2int_ru|__float2int_rd}({f})
i {__double2int_rn|__double2int_rz|__double2int_ru|__double2int_rd}({d})
i __float_as_int({f})
i __double2hiint({d})
i __double2loint({d})
i (int){l}
i ilogbf({f})
i __half2int_rn(__low2half({h}))
i __half2short_rz(__high2half({h}))
i __bfloat162int_rn(__low2bfloat16({b}))
i (({i} < {i}) + ({u} >= {u}) * 2 + ({f} < {f}) * 4)
u ({u} + {u})
u ({u} - {u})
u ({u} * {u})
u ({u} + {u} * {2..70000})
u ({u} / ({u} | 1))
u ({u} % ({u} | 3))
u ({u} % {3..1000})
u ({u} << ({u} & 31))
u ({u} >> ({u} & 31))
u ({u} << {1..31})
u ({u} >> {1..31})
u ({u} & {u})
u ({u} | ({u} & ~{u}))
u ({u} ^ {u} ^ {u})
u (({u} & {u}) | (~{u} & {u}))
u min({u}, {u})
u max({u}, {u})
u ({p} ? {u} : {u})
u __umulhi({u}, {u})
u __umul24({u}, {u})
u __sad({i}, {i}, {u})
u __usad({u}, {u}, {u})
u __uhadd({u}, {u})
u __brev({u})
u __byte_perm({u}, {u}, {u})
u __byte_perm({u}, {u}, {0..65535})
u {__funnelshift_l|__funnelshift_r|__funnelshift_lc|__funnelshift_rc}({u}, {u}, {u})
u {__funnelshift_l|__funnelshift_r}({u}, {u}, {1..31})
u __dp4a({u}, {u}, {u})
u {__vadd2|__vsub2|__vavgu2|__vavgs4|__vabsdiffu2|__vabsdiffu4|__vminu2|__vmaxs2|__vadd4|__vsub4|__vminu4|__vmaxs4|__vaddus2|__vsubss2|__vaddss4|__vsubus4|__vsadu4|__vsads2}({u}, {u})
u {__vcmpeq2|__vcmpgtu4|__vcmples2|__vseteq4|__vsetltu2|__vsetges4|__vcmpne4|__vcmpltu2}({u}, {u})
u {__vabs2|__vneg2|__vabsss4|__vnegss2|__vabs4}({u})
u {__viaddmax_u32|__viaddmin_u32|__vimax3_u32|__vimin3_u32|__vimax3_s16x2|__vimin3_u16x2|__viaddmax_s16x2|__viaddmin_s16x2_relu|__vimax3_s16x2_relu|__viaddmax_u16x2}({u}, {u}, {u})
u (unsigned)(unsigned char){u}
u (unsigned)(unsigned short){i}
u (({u} >> {0..24}) & {1..4095})
u (({u} & ~(0xffu << {0..24})) | (({u} & 0xff) << {0..24}))
u {__float2uint_rn|__float2uint_rz|__float2uint_ru|__float2uint_rd}({f})
u {__double2uint_rn|__double2uint_rz|__double2uint_ru|__double2uint_rd}({d})
u __float_as_uint({f})
u (unsigned){q}
u (unsigned)({q} >> 32)
u bits_h({h})
u bits_b({b})
u lop3<{0..255}>({u}, {u}, {u})
u bfe({u}, {u}, {u})
u bfi({u}, {u}, {u}, {u})
u shl_clamped({u}, {u})
u shr_clamped({u}, {u})
u permute_{f4e|b4e|rc8|ecl|ecr|rc16}({u}, {u}, {u})
u bfind_{plain|shift}({u})
u bmsk_{clamp|wrap}({u}, {u})
u szext_{clamp|wrap}({u}, {u})
u __hgt2_mask({h}, {h})
u __hleu2_mask({h}, {h})
u __heq2_mask({b}, {b})
u __hltu2_mask({b}, {b})
u __half2uint_rz(__low2half({h}))
u (unsigned)__half_as_ushort(__float2half_{rn|rz|ru|rd}({f}))
u (unsigned)__bfloat16_as_ushort(__float2bfloat16_{rn|rz}({f}))
u (unsigned)__half_as_ushort(__double2half({d}))
u (unsigned)__half_as_ushort(__int2half_{rn|rz}({i}))
u (unsigned)__nv_cvt_float2_to_fp8x2(make_float2({f}, {f}), {__NV_SATFINITE|__NV_NOSAT}, {__NV_E4M3|__NV_E5M2})
u (unsigned)__nv_cvt_halfraw2_to_fp8x2(__half2_raw({h}), __NV_SATFINITE, {__NV_E4M3|__NV_E5M2})
u table[{u} & 63]
u addc3({u}, {u}, {u}, {u}, {u}, {u})
u subc2({u}, {u}, {u}, {u})
u madc({u}, {u}, {u}, {u})
l ({l} + {l})
l ({l} - {l})
l ({l} * {l})
l ({l} / ({l} | 1))
l ({l} % ({l} | 1))
l ((long long){i} * {i})
l ((long long){i} * {i} + {l})
l ({l} << ({u} & 63))
l ({l} >> ({u} & 63))
l ({l} & {l})
l ({l} ^ {l})
l min({l}, {l})
l max({l}, {l})
l llabs({l})
l ({p} ? {l} : {l})
l __mul64hi({l}, {l})
l {__float2ll_rn|__float2ll_rz|__float2ll_ru|__float2ll_rd}({f})
l {__double2ll_rn|__double2ll_rz|__double2ll_ru|__double2ll_rd}({d})
l (long long){i}
l __double_as_longlong({d})
l (long long){q}
q ({q} + {q})
q ({q} - {q})
q ({q} * {q})
q ({q} / ({q} | 1))
q ({q} % ({q} | 5))
q ((unsigned long long){u} * {u})
q ((unsigned long long){u} * {u} + {q})
q ({q} << ({u} & 63))
q ({q} >> ({u} & 63))
q ({q} >> {1..63})
q ({q} | {q})
q ({q} ^ ~{q})
q min({q}, {q})
q __umul64hi({q}, {q})
q __brevll({q})
q {__float2ull_rn|__float2ull_rz}({f})
q {__double2ull_rn|__double2ull_rz|__double2ull_ru}({d})
q (unsigned long long){u}
q (((unsigned long long){u} << 32) | {u})
q mul128({q}, {q}, {u})
q ({p} ? {q} : {q})
f ({f} + {f})
f ({f} - {f})
f ({f} * {f})
f ({f} * {f} + {f})
f ({f} * {f} - {f})
f fmaf({f}, {f}, {f})
f ({f} / {f})
f (1.0f / {f})
f {__fadd_rn|__fadd_rz|__fadd_ru|__fadd_rd|__fmul_rn|__fmul_rz|__fmul_ru|__fmul_rd|__fsub_rz|__fdiv_rn|__fdiv_rz|__fdiv_ru|__fdividef}({f}, {f})
f {__fmaf_rn|__fmaf_rz|__fmaf_ru|__fmaf_rd}({f}, {f}, {f})
f {__frcp_rn|__frcp_rz|__fsqrt_rn|__fsqrt_ru|__frsqrt_rn|__saturatef|rsqrtf|sqrtf|exp2f|__expf|expf|truncf|floorf|ceilf|rintf|roundf|fabsf|cbrtf}({f})
f {logf|log2f|log1pf|expm1f|sinf|cosf|atanf|erff|tanf|asinf|rcbrtf|sinpif|lgammaf|asinhf}({f})
f {powf|fmodf|hypotf|atan2f|remainderf|nextafterf|fdimf}({f}, {f})
f {fminf|fmaxf|copysignf}({f}, {f})
f {min_nan|max_nan|min_xorsign|max_xorsign}({f}, {f})
f fma_{sat|ftz}({f}, {f}, {f})
f {add_ftz|mul_ftz|add_sat|mul_sat}({f}, {f})
f {ex2_ftz|rcp_ftz|rsq_ftz|sqrt_ftz}({f})
f ldexpf({f}, {i} & 31)
f -fabsf({f})
f ({p} ? {f} : {f})
f {__int2float_rn|__int2float_rz|__int2float_ru|__int2float_rd}({i})
f {__uint2float_rn|__uint2float_rz|__uint2float_ru|__uint2float_rd}({u})
f {__ll2float_rn|__ll2float_rz|__ll2float_ru|__ll2float_rd}({l})
f {__ull2float_rn|__ull2float_rz}({q})
f {__double2float_rn|__double2float_rz|__double2float_ru|__double2float_rd}({d})
f __int_as_float({i})
f __uint_as_float(({u} & 0x7fffff) | 0x3f800000)
f __low2float({h})
f __high2float({h})
f __low2float({b})
f __high2float({b})
f (float)({u} & 255)
f (float)(short){i}
f fp8_to_float_{e4m3|e5m2}({u})
d ({d} + {d})
d ({d} - {d})
d ({d} * {d})
d ({d} * {d} + {d})
d fma({d}, {d}, {d})
d {__dadd_rn|__dadd_rz|__dadd_ru|__dmul_rn|__dmul_rd|__dmul_rz|__ddiv_rn|__ddiv_rz|fmin|fmax|copysign}({d}, {d})
d {__fma_rz|__fma_ru|__fma_rd}({d}, {d}, {d})
d ({d} / {d})
d {sqrt|__dsqrt_rz|__drcp_rn|rsqrt|trunc|floor|ceil|rint|fabs|cbrt}({d})
d {exp|log|exp2|sin|log1p|atan|erf}({d})
d (-{d})
d ({p} ? {d} : {d})
d __int2double_rn({i})
d __uint2double_rn({u})
d {__ll2double_rn|__ll2double_rz}({l})
d {__ull2double_rn|__ull2double_ru}({q})
d (double){f}
d __hiloint2double({i}, {i})
d __longlong_as_double({l})
d (double)__low2float({h})
h {__hadd2|__hsub2|__hmul2|__hmin2|__hmax2|__hmin2_nan|__hmax2_nan|__hadd2_sat|__hmul2_sat|__hsub2_sat|__hadd2_rn|__hmul2_rn}({h}, {h})
h {__hfma2|__hfma2_sat|__hfma2_relu}({h}, {h}, {h})
h {__hgt2|__hle2|__heq2|__hne2|__hltu2|__hequ2}({h}, {h})
h {__hneg2|__habs2|h2floor|h2rint|h2trunc|__lowhigh2highlow|__low2half2}({h})
h {h2exp2|h2rcp|h2sqrt|h2rsqrt|h2exp}({h})
h __h2div({h}, {h})
h {__lows2half2|__highs2half2}({h}, {h})
h __floats2half2_rn({f}, {f})
h __float2half2_rn({f})
h half2_of({u})
h ({p} ? {h} : {h})
h __halves2half2(__low2half({h}), __high2half({h}))
h __halves2half2(__hfma(__low2half({h}), __high2half({h}), __low2half({h})), __int2half_rn({i}))
h half2_from_fp8_{e4m3|e5m2}({u})
b {__hadd2|__hsub2|__hmul2|__hmin2|__hmax2|__hmin2_nan|__hmax2_nan|__hadd2_sat|__hmul2_rn}({b}, {b})
b {__hfma2|__hfma2_sat|__hfma2_relu}({b}, {b}, {b})
b {__hgt2|__hle2|__hneu2}({b}, {b})
b {__hneg2|__habs2|h2rcp|h2rint}({b})
b __floats2bfloat162_rn({f}, {f})
b bfloat162_of({u})
b ({p} ? {b} : {b})
p ({i} {<|<=|==|!=|>|>=} {i})
p ({u} {<|<=|==|!=|>|>=} {u})
p ({l} {<|>=|==} {l})
p ({q} {<|>=|!=} {q})
p ({f} {<|<=|==|!=|>|>=} {f})
p !({f} {<|<=|>|>=} {f})
p ({d} {<|<=|==|!=|>|>=} {d})
p !({d} < {d})
p ({p} && {p})
p ({p} || {p})
p ({p} != {p})
p !{p}
p (({u} & {1..255}) != 0)
p (({u} & 1) != 0)
p ({i} < 0)
p isnan({f})
p isinf({d})
p signbit({f})
p __hbgt2({h}, {h})
p __hbequ2({h}, {h})
p __hblt2({b}, {b})
p __hlt(__low2half({h}), __high2half({h}))
p isfinite({f})
"""

# Functions that the operations above name and CUDA lacks.
PRELUDE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#define ASM_U2(name, text) \
  __device__ __forceinline__ unsigned name(unsigned a, unsigned b) { \
    unsigned r; asm(text " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
#define ASM_U3(name, text) \
  __device__ __forceinline__ unsigned name(unsigned a, unsigned b, unsigned c) { \
    unsigned r; asm(text " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
#define ASM_F2(name, text) \
  __device__ __forceinline__ float name(float a, float b) { \
    float r; asm(text " %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
#define ASM_F1(name, text) \
  __device__ __forceinline__ float name(float a) { float r; asm(text " %0, %1;" : "=f"(r) : "f"(a)); return r; }
#define ASM_F3(name, text) \
  __device__ __forceinline__ float name(float a, float b, float c) { \
    float r; asm(text " %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r; }
ASM_U2(shl_clamped, "shl.b32") ASM_U2(shr_clamped, "shr.u32")
ASM_U2(bmsk_clamp, "bmsk.clamp.b32") ASM_U2(bmsk_wrap, "bmsk.wrap.b32")
ASM_U2(szext_clamp, "szext.clamp.s32") ASM_U2(szext_wrap, "szext.wrap.u32")
ASM_U3(bfe, "bfe.u32")
ASM_U3(permute_f4e, "prmt.b32.f4e") ASM_U3(permute_b4e, "prmt.b32.b4e") ASM_U3(permute_rc8, "prmt.b32.rc8")
ASM_U3(permute_ecl, "prmt.b32.ecl") ASM_U3(permute_ecr, "prmt.b32.ecr") ASM_U3(permute_rc16, "prmt.b32.rc16")
ASM_F2(min_nan, "min.NaN.f32") ASM_F2(max_nan, "max.NaN.f32")
ASM_F2(min_xorsign, "min.xorsign.abs.f32") ASM_F2(max_xorsign, "max.NaN.xorsign.abs.f32")
ASM_F2(add_ftz, "add.ftz.f32") ASM_F2(mul_ftz, "mul.ftz.f32") ASM_F2(add_sat, "add.sat.f32") ASM_F2(mul_sat, "mul.sat.f32")
ASM_F1(ex2_ftz, "ex2.approx.ftz.f32") ASM_F1(rcp_ftz, "rcp.approx.ftz.f32") ASM_F1(rsq_ftz, "rsqrt.approx.ftz.f32")
ASM_F1(sqrt_ftz, "sqrt.rn.ftz.f32")
ASM_F3(fma_sat, "fma.rn.sat.f32") ASM_F3(fma_ftz, "fma.rn.ftz.f32")
template <int table> __device__ __forceinline__ unsigned lop3(unsigned a, unsigned b, unsigned c) {
  unsigned r; asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(table)); return r;
}
__device__ __forceinline__ unsigned bfi(unsigned a, unsigned b, unsigned c, unsigned d) {
  unsigned r; asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "r"(d)); return r;
}
__device__ __forceinline__ unsigned bfind_plain(unsigned a) {
  unsigned r; asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a)); return r;
}
__device__ __forceinline__ unsigned bfind_shift(unsigned a) {
  unsigned r; asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(a)); return r;
}
__device__ __forceinline__ unsigned addc3(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f) {
  unsigned r;
  asm("{ .reg .u32 t, v; add.cc.u32 t, %1, %2; addc.cc.u32 v, %3, %4; addc.u32 %0, %5, %6; xor.b32 %0, %0, v; }"
      : "=r"(r) : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
  return r;
}
__device__ __forceinline__ unsigned subc2(unsigned a, unsigned b, unsigned c, unsigned d) {
  unsigned r; asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, %3, %4; }"
                  : "=r"(r) : "r"(a), "r"(b), "r"(c), "r"(d)); return r;
}
__device__ __forceinline__ unsigned madc(unsigned a, unsigned b, unsigned c, unsigned d) {
  unsigned r; asm("{ .reg .u32 t; mad.lo.cc.u32 t, %1, %2, %3; madc.hi.u32 %0, %1, %2, %4; }"
                  : "=r"(r) : "r"(a), "r"(b), "r"(c), "r"(d)); return r;
}
__device__ __forceinline__ unsigned long long mul128(unsigned long long a, unsigned long long b, unsigned s) {
  return (unsigned long long)(((unsigned __int128)a * b) >> (s & 127));
}
__device__ __forceinline__ unsigned bits_h(__half2 v) { return *reinterpret_cast<unsigned*>(&v); }
__device__ __forceinline__ unsigned bits_b(__nv_bfloat162 v) { return *reinterpret_cast<unsigned*>(&v); }
__device__ __forceinline__ __half2 half2_of(unsigned v) { return *reinterpret_cast<__half2*>(&v); }
__device__ __forceinline__ __nv_bfloat162 bfloat162_of(unsigned v) { return *reinterpret_cast<__nv_bfloat162*>(&v); }
__device__ __forceinline__ __half2 half2_from_fp8_e4m3(unsigned v) {
  return __half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)v, __NV_E4M3));
}
__device__ __forceinline__ __half2 half2_from_fp8_e5m2(unsigned v) {
  return __half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)v, __NV_E5M2));
}
__device__ __forceinline__ float fp8_to_float_e4m3(unsigned v) { return __low2float(half2_from_fp8_e4m3(v)); }
__device__ __forceinline__ float fp8_to_float_e5m2(unsigned v) { return __high2float(half2_from_fp8_e5m2(v)); }
"""
