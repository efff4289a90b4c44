#include "instrument/sass/effects.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "instrument/sass/print.h"

namespace xtrace::sass {
namespace {

const Arch& arch(unsigned sm) { return **find_arch(sm); }

// "R2-5 UR4 P0": runs of registers, file by file.
template <typename Has>
void append_runs(std::string& s, const char* prefix, unsigned size, Has has) {
  for (unsigned i = 0; i < size; ++i) {
    if (!has(i)) continue;
    unsigned last = i;
    while (last + 1 < size && has(last + 1)) ++last;
    if (!s.empty()) s += ' ';
    s += last == i ? fmt::format("{}{}", prefix, i) : fmt::format("{}{}-{}", prefix, i, last);
    i = last;
  }
}
std::string side(const RegEffects& e) {
  std::string s;
  append_runs(s, "R", 256, [&](unsigned i) { return e.gpr[i]; });
  append_runs(s, "UR", 256, [&](unsigned i) { return e.ur[i]; });
  append_runs(s, "P", 8, [&](unsigned i) { return (e.pred >> i & 1) != 0; });
  append_runs(s, "UP", 8, [&](unsigned i) { return (e.upred >> i & 1) != 0; });
  append_runs(s, "B", 16, [&](unsigned i) { return (e.barrier >> i & 1) != 0; });
  return s;
}
std::string written_and_read(const Effects& e) {
  const std::string def = side(e.def), use = side(e.use);
  return (def.empty() ? "" : def + " ") + "<-" + (use.empty() ? "" : " " + use);
}

struct Registers {
  unsigned sm;
  const char* text;
  RawInst word;
  const char* expected;
};
// Words of vendor code and compiled kernels; register counts checked by hand against the operation and by
// liveness over whole kernels (nothing may be live at entry).
const Registers registers[] = {
    {90, "@!P0 BRA.DIV UR6, *", {0x0000002606fc8947, 0x000fe2000b800000}, "<- UR6 P0"},
    {90, "@!P2 F2F.F32.F64 R18, R8", {0x000000080012a310, 0x000fe20000301000}, "R18 <- R8-9 P2"},
    {90,
     "@!P6 TLD.LZ RZ, R32, R11, UR4, 0x0, 1D, 0x3",
     {0x000004ff0b20ef66, 0x000fe200089e03ff},
     "R32-33 <- R11 UR4-5 P6"},
    {90,
     "@!UP0 UPLOP3.LUT UP2, UPT, UPT, UPT, UP4, 0x80, 0x0",
     {0x000000000000889c, 0x000fe20003f4f040},
     "UP2 <- UP0 UP4"},
    {90, "@P0 BREAK B3", {0x0000000000030942, 0x000fea0003800000}, "B3 <- P0 B3"},
    {90,
     "@P0 DSETP.MIN.AND P2, P3, R54, R18, PT",
     {0x000000123600022a, 0x000fe20003b40000},
     "P2-3 <- R18-19 R54-55 P0"},
    {90,
     "@P0 LDGMC.E.MAX.BF16x8.RN.STRONG.SYS R72, [R14.64+URZ+0x600]",
     {0x000600000e4809a5, 0x000fe2000a014b7f},
     "R72-75 <- R14-15 P0"},
    {90, "@P1 STL.64 [UR10+0xe0], R10", {0x0000e00aff001987, 0x000fe20008100a0a}, "<- R10-11 UR10 P1"},
    {90, "@P2 BAR.SYNC.DEFER_BLOCKING 0xe, R39", {0x038000270000291d, 0x000fe20000010000}, "<- R39 P2"},
    {90, "@P2 DADD R28, -RZ, -R28", {0x00000000ff1c2229, 0x000fe2000000091c}, "R28-29 <- R28-29 P2"},
    {90, "@P2 IMAD.HI.U32 R26, R24, R29, RZ", {0x0000001d181a2227, 0x000fe200078e00ff}, "R26 <- R24 R29 P2"},
    {90,
     "@P2 LDG.E.U8.CONSTANT R8, desc[UR8][R2.64+0x20]",
     {0x0000200802082981, 0x000fe2000c1e9100},
     "R8 <- R2-3 UR8-9 P2"},
    {90,
     "@P2 LDGSTS.E.LTC128B.64 [R193+UR28+0x800], [R232.64]",
     {0x00800000e8c12dae, 0x000fe2000b920b5c},
     "<- R193 R232-233 UR28 P2"},
    {90, "@P2 LDL.64 R16, [R1+0x50]", {0x0000500001102983, 0x000fe20000100a00}, "R16-17 <- R1 P2"},
    {90, "@P3 R2UR UR14, R18", {0x00000000120e32ca, 0x000fe200000e0000}, "UR14 <- R18 P3"},
    {90,
     "@P4 LD.E.128.STRONG.SYS R20, desc[UR10][R10.64+0x2000]",
     {0x0020000a0a144980, 0x000fe2000c115d00},
     "R20-23 <- R10-11 UR10-11 P4"},
    {90, "@P4 STG.E.128 [R26], R16", {0x000000101a004386, 0x000fe20000100d00}, "<- R16-19 R26-27 P4"},
    {90,
     "ATOM.E.CAS.STRONG.GPU PT, R22, [R6], R23, R22",
     {0x000000170616738b, 0x000fe200001ee116},
     "R22 <- R6-7 R22-23"},
    {90,
     "ATOMG.E.ADD.64.STRONG.GPU PT, R8, desc[UR6][R8.64], R12",
     {0x0000000c080879a8, 0x000fe200081ee5c6},
     "R8-9 <- R8-9 R12-13 UR6-7"},
    {90,
     "ATOMG.E.CAS.64.STRONG.GPU PT, R10, [R16], R8, R10",
     {0x00000008100a73a9, 0x000fe200001ee50a},
     "R10-11 <- R8-11 R16-17"},
    {90, "ATOMS.ADD R49, [R49], R52", {0x000000343131738c, 0x000fe20000000000}, "R49 <- R49 R52"},
    {90,
     "ATOMS.CAST.SPIN.64 R6, [R9+0x2000], R4, R6",
     {0x002000040906738d, 0x000fe20001800406},
     "R6-7 <- R4-7 R9"},
    {90, "ATOMS.POPC.INC.32 RZ, [R60+URZ]", {0x000000003cff7f8c, 0x000fe2000d80003f}, "<- R60"},
    {90, "B2R.RESULT RZ, P1", {0x0000000000ff731c, 0x000fe20000024000}, "P1 <-"},
    {90, "BAR.RED.OR.DEFER_BLOCKING 0x0, P0", {0x0000000000007b1d, 0x000fe20000014800}, "<- P0"},
    {90, "BMOV.32.CLEAR R3, B9", {0x0000000009037355, 0x000fe20000100000}, "R3 B9 <- B9"},
    {90, "BRX R2 -0x39c0", {0xffffffc402907949, 0x000fe2000383ffff}, "<- R2-3"},
    {90, "BSSY B2, *", {0x0000128000027945, 0x000fe20003800000}, "B2 <-"},
    {90, "BSYNC B5", {0x0000000000057941, 0x000fe20003800000}, "<- B5"},
    {90, "CCTL.IVALL", {0x00000000ff00798f, 0x000fe20002000000}, "<-"},
    {90, "CS2R R16, SRZ", {0x0000000000107805, 0x000fe2000001ff00}, "R16-17 <-"},
    {90, "DEPBAR.LE SB0, 0x4", {0x000081000000791a, 0x000fe20000000000}, "<-"},
    {90, "DFMA.RM R12, R14, R12, R8", {0x0000000c0e0c722b, 0x000fe20000004008}, "R12-13 <- R8-9 R12-15"},
    {90,
     "DMMA.8x8x4 R36, R12, R18, R36",
     {0x000000120c24723f, 0x000fe20000000024},
     "R36-39 <- R12-13 R18-19 R36-39"},
    {90, "DMUL R62, R62, R38", {0x000000263e3e7228, 0x000fe20000000000}, "R62-63 <- R38-39 R62-63"},
    {90, "ELECT P4, URZ, PT", {0x00000000003f782f, 0x000fe20003880000}, "P4 <-"},
    {90, "F2F.F64.F32 R18, R3", {0x0000000300127310, 0x000fe20000201800}, "R18-19 <- R3"},
    {90, "F2I.S64.F64.TRUNC R14, R14", {0x0000000e000e7311, 0x000fe2000030d900}, "R14-15 <- R14-15"},
    {90, "FCHK P0, -R25, R4", {0x0000000419007302, 0x000fe20000000100}, "P0 <- R4 R25"},
    {90, "FSETP.GT.OR P1, PT, R24, R6, P1", {0x000000061800720b, 0x000fe20000f24400}, "P1 <- R6 R24 P1"},
    {90, "HFMA2.OOB.RELU R162, R5, R162, R7", {0x000000a205a27231, 0x000fe20003819007}, "R162 <- R5 R7 R162"},
    {90,
     "HGMMA.64x128x16.F16 R24, gdesc[UR24].tnspB, R24",
     {0x41e00000181879f0, 0x000fe20008700018},
     "R24-55 <- R24-55 UR24-27"},
    {90,
     "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16].tnspA.tnspB, R24, gsb0",
     {0x63e00000101879f0, 0x000fe20008001818},
     "R24-151 <- R24-151 UR16-19"},
    {90,
     "HGMMA.64x64x8.F32.TF32 R24, R116, gdesc[UR28], R24, gsb0",
     {0x04e0001c74187df0, 0x000fe20008002818},
     "R24-55 <- R24-55 R116-119 UR28-31"},
    {90,
     "HMMA.16816.F16 R18, R124, R118, R18",
     {0x000000767c12723c, 0x000fe20000000812},
     "R18-19 <- R18-19 R118-119 R124-127"},
    {90,
     "HMMA.16816.F32 R100, R192, R182, R100",
     {0x000000b6c064723c, 0x000fe20000001864},
     "R100-103 <- R100-103 R182-183 R192-195"},
    {90,
     "HMMA.1688.F32 R36, R82, R84, R36",
     {0x000000545224723c, 0x000fe20000001024},
     "R36-39 <- R36-39 R82-84"},
    {90,
     "HMMA.1688.F32.TF32 R128, R192, R150, R128",
     {0x00000096c080723c, 0x000fe20000081080},
     "R128-131 <- R128-131 R150-151 R192-195"},
    {90, "I2F.F64 R20, 0x1", {0x0000000100147912, 0x000fe20000201c00}, "R20-21 <-"},
    {90, "I2F.F64.S64 R6, UR4", {0x0000000400067d12, 0x000fe20008301c00}, "R6-7 <- UR4-5"},
    {90, "IADD3 R3, P1, R4, R8, RZ", {0x0000000804037210, 0x000fc80007f3e0ff}, "R3 P1 <- R4 R8"},
    {90,
     "IADD3.X R29, R89, R45, R11, P0, P3",
     {0x0000002d591d7210, 0x000fe200007e640b},
     "R29 <- R11 R45 R89 P0 P3"},
    {90,
     "IGMMA.64x128x32.S8.S8 R88, gdesc[UR24], R88",
     {0x03600000185879f1, 0x000fe20008741058},
     "R88-151 <- R88-151 UR24-27"},
    {90, "IMAD.WIDE R4, R9, R29, RZ", {0x0000001d09047225, 0x000fe200078e02ff}, "R4-5 <- R9 R29"},
    {90,
     "IMAD.WIDE.U32.X R58, R83, R5, R30, P1",
     {0x00000005533a7225, 0x000fe200008e041e},
     "R58-59 <- R5 R30-31 R83 P1"},
    {90,
     "IMMA.16816.S8.S8.SAT R36, R2.ROW, R73.COL, R36",
     {0x0000004902247237, 0x000fe20000445424},
     "R36-39 <- R2-3 R36-39 R73"},
    {90,
     "IMMA.16832.S8.S8.SAT R56, R88.ROW, R76.COL, R56",
     {0x0000004c58387237, 0x000fe20000445c38},
     "R56-59 <- R56-59 R76-77 R88-91"},
    {90,
     "ISETP.NE.OR.EX P2, PT, R75, R27, P0, P2",
     {0x0000001b4b00720c, 0x000fe20000745720},
     "P2 <- R27 R75 P0 P2"},
    {90,
     "LDG.E.128.STRONG.SYS R48, desc[UR12][R70.64+0x600]",
     {0x0006000c46307981, 0x000fe2000c1f5d00},
     "R48-51 <- R70-71 UR12-13"},
    {90,
     "LDG.E.64 R30, desc[UR4][R6.64+0x10]",
     {0x00001004061e7981, 0x000fe2000c1e1b00},
     "R30-31 <- R6-7 UR4-5"},
    {90,
     "LDGMC.E.ADD.F32x4.RN.STRONG.SYS R16, [R28.64+URZ+0xe00]",
     {0x000e00001c1079a5, 0x000fe20008015d7f},
     "R16-19 <- R28-29"},
    {90,
     "LDGSTS.E.BYPASS.128 [R6+0x18000], desc[UR10][R40.64]",
     {0x1800000028067fae, 0x000fe2000b901c4a},
     "<- R6 R40-41 UR10-11"},
    {90, "LDS.128 R4, [R41+0x40]", {0x0000400029047984, 0x000fe20000000c00}, "R4-7 <- R41"},
    {90, "LDS.64 R78, [R75+0x58]", {0x000058004b4e7984, 0x000fe20000000a00}, "R78-79 <- R75"},
    {90, "LDSM.16.M88.4 R16, [R212+0x4000]", {0x00400000d410783b, 0x000fe20000000200}, "R16-19 <- R212"},
    {90, "LDSM.16.MT88.2 R2, [R56+0x100]", {0x000100003802783b, 0x000fe20000004100}, "R2-3 <- R56"},
    {90, "LEA R12, P0, R4, R0, 0x4", {0x00000000040c7211, 0x000fe200078020ff}, "R12 P0 <- R0 R4"},
    {90,
     "LEA.HI.X R19, R7, R59, R6, 0x3, P1",
     {0x0000003b07137211, 0x000fe200008f1c06},
     "R19 <- R6-7 R59 P1"},
    {90, "MATCH.ANY R6, R29", {0x000000001d0673a1, 0x000fe200000e8000}, "R6 <- R29"},
    {90, "MUFU.RCP64H R5, 10", {0x4024000000057908, 0x000fe20000001800}, "R5 <-"},
    {90, "NANOSLEEP 0x1c2", {0x000001c20000795d, 0x000fe20003800000}, "<-"},
    {90, "P2R.B1 R240, PR, R240, 0xf", {0x0000000ff0f07803, 0x000fe20000001000}, "R240 <- R240 P0-3"},
    {90, "PLOP3.LUT P0, PT, P1, P0, PT, 0x2a, 0x0", {0x000000000000781c, 0x000fda0000f00572}, "P0 <- P0-1"},
    {90, "PLOP3.LUT P1, PT, PT, PT, UP0, 0x80, 0x0", {0x000000000000781c, 0x000fe20003f2f008}, "P1 <- UP0"},
    {90,
     "QGMMA.64x256x32.F32.E4M3.E4M3 R24, gdesc[UR32], R24",
     {0x03e00000201879f3, 0x000fe20008700818},
     "R24-151 <- R24-151 UR32-35"},
    {90, "QSPC.E.S P0, RZ, [R110+0x80]", {0x000080006eff73aa, 0x000fe20000000500}, "P0 <- R110-111"},
    {90, "R2P PR, R5.B1, 0xf", {0x0000000f05007804, 0x000fe20000001000}, "P0-3 <- R5"},
    {90,
     "REDG.E.ADD.F64.RN.STRONG.GPU desc[UR4][R36.64], R38",
     {0x00000026240079a6, 0x000fe2000c10ff84},
     "<- R36-39 UR4-5"},
    {90,
     "REDG.E.ADD.STRONG.GPU desc[UR10][R60.64], R76",
     {0x0000004c3c00798e, 0x000fe2000c10e18a},
     "<- R60-61 R76 UR10-11"},
    {90, "REDUX.MAX.S32 UR7, R7", {0x00000000070773c4, 0x000fe20000014200}, "UR7 <- R7"},
    {90, "RET.REL.NODEC R14 *", {0xffffff8c0e107950, 0x000fe20003c3ffff}, "<- R14-15"},
    {90, "SEL R21, R26, RZ, !P4", {0x000000ff1a157207, 0x000fe20006000000}, "R21 <- R26 P4"},
    {90,
     "SHFL.BFLY P2, R18, R18, R19, R22",
     {0x0c00001312127389, 0x000fe20000040016},
     "R18 P2 <- R18-19 R22"},
    {90, "SHFL.IDX P4, R31, R18, R19, R20", {0x00000013121f7389, 0x000fe20000080014}, "R31 P4 <- R18-20"},
    {90,
     "ST.E.128.STRONG.SYS desc[UR8][R6.64+0xd0], R80",
     {0x0000d05006007985, 0x000fe2000c115d08},
     "<- R6-7 R80-83 UR8-9"},
    {90, "STAS [R2.64], R0", {0x0000000002007dbd, 0x000fe2000c00083f}, "<- R0 R2-3"},
    {90,
     "STG.E.64 desc[UR10][R6.64+0x4000], RZ",
     {0x004000ff06007986, 0x000fe2000c101b0a},
     "<- R6-7 UR10-11"},
    {90, "STS.128 [R40], R20", {0x0000001428007388, 0x000fe20000000c00}, "<- R20-23 R40"},
    {90, "STSM.16.M88.4 [R123+0x1000], R8", {0x001000087b007844, 0x000fe20000000200}, "<- R8-11 R123"},
    {90,
     "SYNCS.ARRIVE.TRANS64 RZ, [UR7+0x138], R14",
     {0x0001380effff79a7, 0x000fe20008000007},
     "<- R14 UR7"},
    {90, "SYNCS.EXCH.64 URZ, [UR16+0xe8], UR20", {0x0000e814103f75b2, 0x000fe20008000100}, "<- UR16 UR20-21"},
    {90,
     "SYNCS.PHASECHK.TRANS64.TRYWAIT P4, [UR7+0x88], R2",
     {0x00008802ff0075a7, 0x000fe20008080147},
     "P4 <- R2 UR7"},
    {90,
     "UIADD3.X UR49, URZ, UR37, URZ, UP3, !UPT",
     {0x000000253f317290, 0x000fe20009ffe43f},
     "UR49 <- UR37 UP3"},
    {90,
     "UIMAD.WIDE UR10, UR14, UR15, UR10",
     {0x0000000f0e0a72a5, 0x000fe2000f8e020a},
     "UR10-11 <- UR10-11 UR14-15"},
    {90, "ULDC.64 UR22, c[0x0][0x4a8]", {0x00012a0000167ab9, 0x000fe20000000a00}, "UR22-23 <-"},
    {90, "ULDC.U16 UR27, c[0x0][UR9+0x768]", {0x0001da00091b7abb, 0x000fe20008000400}, "UR27 <- UR9"},
    {90, "UP2UR UR14, UPR, URZ, 0x1", {0x000000013f0e7883, 0x000fe20008000000}, "UR14 <- UP0"},
    {90, "USEL UR39, UR10, URZ, !UP0", {0x0000003f0a277287, 0x000fe2000c000000}, "UR39 <- UR10 UP0"},
    {90, "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", {0x000000e8000079c8, 0x000fe20008000600}, "UP0 <-"},
    {90,
     "UTMALDG.4D.MULTICAST [UR16], [UR10], UR6, desc[UR58]",
     {0x00003a100a0073b4, 0x000fe20008019806},
     "<- UR6 UR10-11 UR16-21 UR58-59"},
    {90,
     "UTMASTG.4D [UR24], [UR38], desc[UR14]",
     {0x00000e18260073b5, 0x000fe20008019000},
     "<- UR14-15 UR24-28 UR38-39"},
    {90, "VOTE.ANY R10, PT, P3", {0x00000000000a7806, 0x000fe200018e0100}, "R10 <- P3"},
    {90, "VOTEU.ANY UP2, P1", {0x00000000003f7886, 0x000fe20000840100}, "UP2 <- P1"},
    {90, "WARPSYNC R25", {0x0000000019007348, 0x000fe20003800000}, "<- R25"},
    {75, "LDG.E.SYS R2, [R2]", {0x0000000002027381, 0x000ea400001ee900}, "R2 <- R2-3"},
    {75, "@P0 RED.E.ADD.STRONG.GPU [UR4], R0", {0x00000000ff00098e, 0x002fe2000c114104}, "<- R0 UR4-5 P0"},
    {75,
     "HMMA.1688.F32 R24, R38, R48, R24",
     {0x000000302618723c, 0x004f700000001018},
     "R24-27 <- R24-27 R38-39 R48"},
    {80, "WARPSYNC.EXCLUSIVE R7", {0x0000000700007348, 0x000fe20003c00000}, "<- R7"},
    {75, "WARPSYNC R12", {0x0000000c00007348, 0x000fe20003800000}, "<- R12"},
    {80,
     "LDG.E R2, [R2.64] with a descriptor in UR4",
     {0x0000000402027981, 0x000ea4000c1e1900},
     "R2 <- R2-3 UR4-5"},
    {80,
     "@P0 RED.E.ADD.STRONG.GPU [R2.64], R5",
     {0x000000050200098e, 0x001fe2000c10e184},
     "<- R2-3 R5 UR4-5 P0"},
    {100, "UMOV UR5, URZ: URZ is 255", {0x000000ff00057c82, 0x000fe20008000000}, "UR5 <-"},
    {100, "LDCU UR5, c[0x0][0x390]", {0x00007200ff0577ac, 0x000e6e0008000800}, "UR5 <-"},
    {100,
     "REDG.E.ADD.F32 desc[UR6][R2.64], R5",
     {0x00000005020079a6, 0x002fe2000c12f306},
     "<- R2-3 R5 UR6-7"},
    {100, "LDGSTS [R92+0x6600], desc[UR12][R20.64], P1", {0x06600000145c7fae, 0x000fe20008981a0c},
     "<- R20-21 R92 UR12-13 P1"},
    {100, "ATOM.E.ADD.BF16x2 P0, RZ, desc[UR22][R48.64], R8", {0x8000000830ff79a2, 0x000fe2000c10e716},
     "P0 <- R8 R48-49 UR22-23"},
    {120, "UISETP.GE.S64.AND UP0, UPT, UR4, 0x1, UPT", {0x000000010400788c, 0x000fe2000bf16270}, "UP0 <- UR4-5"},
    {120, "UMOV.64 UR26, UR10", {0x0000000a001a7c82, 0x000fe20008010000}, "UR26-27 <- UR10-11"},
    {120, "IMNMX.U64 PT, PT, R74, R74, R12", {0x0000000c4a4a7217, 0x000fe20003ffe400}, "R74-75 <- R12-13 R74-75"},
    {120, "ISETP.NE.AND P0, PT, R12, R61, PT", {0x0000003d0c00720c, 0x000fe20003f05270}, "P0 <- R12 R61"},
    {120, "IADD.64 R36, R24, R32", {0x0000002018247235, 0x000fe400078e0200}, "R36-37 <- R24-25 R32-33"},
    {120, "MOV.64 R6, R4", {0x0000000400067202, 0x000fe40000010f00}, "R6-7 <- R4-5"},
    {120, "MOV R6, R4", {0x0000000400067202, 0x000fe40000000f00}, "R6 <- R4"},
    {120, "MOV.64 R8, UR4", {0x0000000400087c02, 0x001fe40008010f00}, "R8-9 <- UR4-5"},
    {120, "UMOV.64 UR6, imm", {0x0080000000067482, 0x000fe20008433000}, "UR6-7 <-"},
    {90, "HGMMA C is not read under !UPT", {0x01e00000145879f0, 0x000fe2000c7008ff}, "R88-151 <- UR20-23"},
    {90,
     "QGMMA.64x64 to F16: 16 registers",
     {0x00e000002c7879f3, 0x000fe20008700078},
     "R120-135 <- R120-135 UR44-47"},
    {90,
     "LDG with a predicate input and output",
     {0x0000000302047981, 0x000fe2000c021904},
     "R4 P1 <- R2-3 UR3-4 P3"},
    {90,
     "RZ is no register: IMAD.WIDE R254 would run into it",
     {0x00000004ff067825, 0x001fcc00078e02fe},
     "R6-7 <- R254"},
    {90, "BAR.SYNC ignores the predicate field", {0x0000000000007b1d, 0x000fec0000010000}, "<-"},
    {90, "P2R reads what the mask selects", {0x0000007f00037803, 0x000fca0000000000}, "R3 <- R0 P0-6"},
    {75, "HMMA.884.F32.F32.STEP3 R6, R172.ROW, R188.COL, R6",
     {0x000000bcac067236, 0x000fe2000001d406}, "R6-7 <- R6-7 R172-173 R188-189"},
    {75, "BMOV.32.CLEAR R3, B8", {0x0000000008037355, 0x000fe20000100000}, "R3 B8 <- B8"},
    {75, "BMOV.32 R3, B8", {0x0000000008037355, 0x000fe20000000000}, "R3 <- B8"},
    {87, "BMOV.32.CLEAR B3, B2", {0x0000000002037f55, 0x000fe20000100000}, "B2-3 <- B2"},
    {87, "BMOV.32 B2, B3", {0x0000000002037f56, 0x000fe20000000000}, "B2 <- B3"},
    {87, "BMOV.32 B15, 0x0", {0x000000000f007956, 0x000fe20000000000}, "B15 <-"},
    {89, "QMMA.16832.F32.E4M3.E4M3 R4, R32.ROW, R38.COL, R4",
     {0x000000262004727a, 0x000fe20000002c04}, "R4-7 <- R4-7 R32-35 R38-39"},
    {89, "QMMA.16816.F16.E4M3.E4M3 R4, R32.ROW, R38.COL, R4",
     {0x000000262004727a, 0x000fe20000000404}, "R4-5 <- R4-5 R32-33 R38"},
    {90, "FMNMX.IS_A R0, P2, R1, R3, P1", {0x0000000301007209, 0x000fe20000a00002}, "R0 P0-6 <- R1 R3 P0-6"},
    {90, "FMNMX R0, R1, R3, P1", {0x0000000301007209, 0x000fe20000a00000}, "R0 <- R1 R3 P1"},
    {90, "UTMASTG.1D [UR16], [UR6]", {0x00000010060073b5, 0x000fe20008000000}, "<- UR6-7 UR16-17"},
    {90, "UTMALDG.1D [UR8], [UR18]", {0x00000008120075b4, 0x000fe20008000000}, "<- UR8-10 UR18-19"},
    {90, "UTMAPF.L2.2D [UR12], [UR6]", {0x0000000c060075b8, 0x000fe20008008000}, "<- UR6-7 UR12-13"},
    {90, "UBLKCP.S.G.MULTICAST [UR14], [UR8], UR10, desc[UR4]",
     {0x0000040e080073ba, 0x000fe20008001a0a}, "<- UR4-5 UR8-10 UR14-15"},
    {90, "SYNCS.ARRIVE.TRANS64.A1T0 R4, [UR6], RZ", {0x000000ffff0479a7, 0x000fe20008100006}, "R4-5 <- UR6"},
    {90, "LDGSTS with a descriptor behind its offset",
     {0x10080000ecd77dae, 0x000fe20009121962}, "<- R215 R236-237 UR34-36 P2"},
    {90, "NANOSLEEP P0, R5", {0x000000050000735d, 0x000fe20000000000}, "<- R5 P0"},
    {90, "ENDCOLLECTIVE P3", {0x000000000000791b, 0x000fe20001800000}, "<- P3"},
    {100, "FFMA2 R40, R32.F32x2.HI_LO, R75.F32, R40.F32x2.HI_LO",
     {0x0000004b20287249, 0x000fe20001000028}, "R40-41 <- R32-33 R40-41 R75"},
    {100, "FADD2 R0, R2.F32x2.HI_LO, R3.F32",
     {0x000000030200724b, 0x000fe20000200004}, "R0-1 <- R2-3"},
    {100, "FMNMX3 R28, R28, R39, R29, !PT", {0x000000271c1c7276, 0x000fe2000780001d}, "R28 <- R28-29 R39"},
    {100, "CREDUX.MIN.S32 UR5, R45", {0x000000002d0572cc, 0x000fe20000008200}, "UR5 <- R45"},
    {100, "ATOMS.CAST.SPIN.64 P1, [R8], R20, R22",
     {0x000000140800758d, 0x000fe20001820416}, "P1 <- R8 R20-23"},
    {100, "LDTM.x4 R112, tmem[UR19+0xc]", {0x00000c13007079ee, 0x000fe20008140000}, "R112-115 <- UR19"},
    {100, "STTM.16dp256bit.x2 tmem[UR3], R16",
     {0x00000010000079ed, 0x000fe200080a0003}, "<- R16-23 UR3"},
    {100, "STG.E.ENL2.256 desc[UR22][R4.64], R8, R12",
     {0xf8000008040c797f, 0x000fe2000f121816}, "<- R4-5 R8-15 UR22-23"},
    {120, "IADD R5, -R3, RZ", {0x000000ff03057235, 0x000fe200078e0100}, "R5 <- R3"},
    {120, "IADD.64 R36, R24, R32", {0x0000002018247235, 0x000fe400078e0200}, "R36-37 <- R24-25 R32-33"},
    {120, "IADD R7, P0, RZ, -R6", {0x80000006ff077235, 0x000fe20007800000}, "R7 P0 <- R6"},
    {120, "IADD.X R39, RZ, ~UR5, P0", {0x80000005ff277c35, 0x000fe200080e0400}, "R39 <- UR5 P0"},
    {120, "SEL.64 R20, R20, RZ, P0", {0x000000ff14147607, 0x000fe20000000000}, "R20-21 <- R20-21 P0"},
    {120, "SEL.64 R4, RZ, 0x1, P0", {0x00000001ff047407, 0x000fe20000000000}, "R4-5 <- P0"},
    {120, "IMNMX.U32 PT, PT, R2, R2, 0x3b, !PT, !PT",
     {0x0000003b02027817, 0x000fe20007ffe000}, "R2 <- R2"},
    {120, "IMNMX.U64 PT, PT, R2, R2, 0x3b, !PT, !PT",
     {0x0000003b02027817, 0x000fe20007ffe400}, "R2-3 <- R2-3"},
    {120, "UFADD UR6, UR7, UR5", {0x0000000007067254, 0x000fe20008000005}, "UR6 <- UR5 UR7"},
    {120, "USEL.64 UR30, UR4, UR12, !UP0", {0x0000000c041e7c87, 0x000fe2000c000000}, "UR30-31 <- UR4-5 UR12-13 UP0"},
    {90, "BSSY P1", {0x000005a000007945, 0x000fe20000800000}, "B0 <- P1"},
};

TEST(Effects, RegisterSets) {
  for (const Registers& r : registers) {
    const Effects e = effects(arch(r.sm), r.word, 0);
    EXPECT_TRUE(e.known) << r.text;
    EXPECT_EQ(written_and_read(e), r.expected) << r.text;
  }
}

// An operand whose count is an upper bound never counts as overwritten.
TEST(Effects, UncertainDefinitionsAreAlsoUses) {
  const RawInst tex{0x000004ff0b20ef60, 0x000fe200089e03ff};
  const Effects e = effects(arch(90), tex, 0);
  EXPECT_EQ((e.def.gpr & ~e.use.gpr).count(), 0u);
  EXPECT_EQ(e.def.gpr.count(), 4u);
  EXPECT_FALSE(e.exact);
  const RawInst tld{0x000004ff0b20ef66, 0x000fe200089e03ff};  // 1D, level zero, two components
  EXPECT_TRUE(effects(arch(90), tld, 0).exact);
  const RawInst tld_2d{0x200004ff0b20ef66, 0x000fe200089e03ff};
  EXPECT_FALSE(effects(arch(90), tld_2d, 0).exact);
}

// Chips that lack a unit run these instructions elsewhere: the code then carries a scoreboard.
TEST(Effects, ScoreboardOverridesFixedLatency) {
  RawInst hadd2{0x000000ff0c007230, 0x000fe20000000800};
  EXPECT_TRUE(effects(arch(75), hadd2, 0).fixed_latency);
  EXPECT_EQ(effects(arch(75), hadd2, 0).late_queue, LateQueue::none);
  Control c = get_control(hadd2);
  c.write_barrier = 2;
  set_control(hadd2, c);
  EXPECT_FALSE(effects(arch(75), hadd2, 0).fixed_latency);
  EXPECT_EQ(effects(arch(75), hadd2, 0).late_queue, LateQueue::other);
}

struct Memory {
  const char* text;
  RawInst word;
  MemSpace space;
  MemKind kind;
  unsigned bytes;
};
TEST(Effects, MemoryAccesses) {
  const Memory rows[] = {
      {"LDG.E.64", {0x00001004061e7981, 0x000fe2000c1e1b00}, MemSpace::global, MemKind::load, 8},
      {"LDG.E.U8", {0x0000200802082981, 0x000fe2000c1e9100}, MemSpace::global, MemKind::load, 1},
      {"STG.E.128", {0x000000101a004386, 0x000fe20000100d00}, MemSpace::global, MemKind::store, 16},
      {"STG.E.U16", {0x000004ec7e00d986, 0x000fe2000c101508}, MemSpace::global, MemKind::store, 2},
      {"LD.E.128", {0x0020000a0a144980, 0x000fe2000c115d00}, MemSpace::generic, MemKind::load, 16},
      {"LDS.64", {0x000058004b4e7984, 0x000fe20000000a00}, MemSpace::shared, MemKind::load, 8},
      {"STS.128", {0x0000001428007388, 0x000fe20000000c00}, MemSpace::shared, MemKind::store, 16},
      {"LDL.64", {0x0000500001102983, 0x000fe20000100a00}, MemSpace::local, MemKind::load, 8},
      {"ULDC.64", {0x00012a0000167ab9, 0x000fe20000000a00}, MemSpace::constant, MemKind::load, 8},
      {"ATOMG.ADD.64", {0x0000000c080879a8, 0x000fe200081ee5c6}, MemSpace::global, MemKind::atomic, 8},
      {"ATOMS.ADD", {0x000000343131738c, 0x000fe20000000000}, MemSpace::shared, MemKind::atomic, 4},
      {"REDG.F64", {0x00000026240079a6, 0x000fe2000c10ff84}, MemSpace::global, MemKind::reduction, 8},
      {"LDGSTS.128", {0x1800000028067fae, 0x000fe2000b901c4a}, MemSpace::global, MemKind::async, 16},
      {"LDSM", {0x00400000d410783b, 0x000fe20000000200}, MemSpace::shared, MemKind::other, 0},
      {"UTMASTG", {0x00000e18260073b5, 0x000fe20008019000}, MemSpace::global, MemKind::async, 0},
      {"FADD", {0x0000000000007221, 0x000fe20000000000}, MemSpace::none, MemKind::none, 0},
  };
  for (const Memory& r : rows) {
    const Effects e = effects(arch(90), r.word, 0);
    EXPECT_EQ(e.space, r.space) << r.text;
    EXPECT_EQ(e.kind, r.kind) << r.text;
    EXPECT_EQ(e.access_bytes, r.bytes) << r.text;
  }
}

struct Scheduling {
  const char* text;
  RawInst word;
  bool fixed;
  LateQueue queue;
  bool switches;
};
TEST(Effects, SchedulingOnSm90) {
  const Scheduling rows[] = {
      {"FADD", {0x0000000000007221, 0x000fe20000000000}, true, LateQueue::none, false},
      {"DADD", {0x0000000018187229, 0x000fca0000000018}, true, LateQueue::none, false},
      {"DMMA", {0x000000120c24723f, 0x000fe20000000024}, false, LateQueue::other, false},
      {"HMMA", {0x0000002e5c7c723c, 0x000fe2000000187c}, true, LateQueue::none, false},
      {"R2UR", {0x00000000080a72ca, 0x001fe200000e0000}, true, LateQueue::none, false},
      {"CS2R", {0x0000000000107805, 0x000fe2000001ff00}, true, LateQueue::none, false},
      {"ULDC", {0x0000820000047ab9, 0x000fe20000000a00}, true, LateQueue::none, false},
      {"S2R", {0x0000000000007919, 0x000e2e0000002100}, false, LateQueue::other, false},
      {"LDG", {0x0000000402007981, 0x0000a4000c1e1900}, false, LateQueue::lsu, false},
      {"LDC", {0x00000a00ff017b82, 0x000fe20000000800}, false, LateQueue::lsu, false},
      {"SHFL", {0x0420000000047989, 0x004e2400000e00ff}, false, LateQueue::lsu, false},
      {"MUFU", {0x0000000300057308, 0x000e240000001c00}, false, LateQueue::xu, false},
      {"F2F", {0x0000000300127310, 0x000fe20000201800}, false, LateQueue::xu, false},
      {"MEMBAR", {0x0000000000007992, 0x000fe2000000b000}, false, LateQueue::other, false},
      {"DEPBAR", {0x000080000000791a, 0x000fe20000000000}, true, LateQueue::none, false},
      {"LEPC", {0x000000001014794e, 0x000fce0000000000}, true, LateQueue::none, false},
      {"BRA", {0x0000000000107947, 0x000ff40003800000}, false, LateQueue::branch, true},
      {"BSSY", {0x000005a000007945, 0x000fe20003800000}, false, LateQueue::branch, false},
      {"BSYNC", {0x0000000000007941, 0x000fea0003800000}, false, LateQueue::branch, true},
      {"WARPSYNC", {0x0000000019007348, 0x000fe20003800000}, false, LateQueue::branch, true},
      {"YIELD", {0x0000000000007946, 0x000fe20003800000}, false, LateQueue::branch, true},
      {"NANOSLEEP", {0x000001c20000795d, 0x000fe20003800000}, false, LateQueue::branch, true},
      {"CALL", {0x0000000000107944, 0x000fea0003c00000}, false, LateQueue::branch, true},
      {"RET", {0xfffffff402a07950, 0x000fea0003c3ffff}, false, LateQueue::branch, true},
      {"EXIT", {0x000000000000794d, 0x000fea0003800000}, false, LateQueue::branch, true},
      {"BREAK", {0x0000000000030942, 0x000fea0003800000}, false, LateQueue::branch, true},
      {"BAR", {0x0000000000007b1d, 0x000fec0000010000}, false, LateQueue::other, true},
      {"SYNCS.PHASECHK", {0x00008802ff0075a7, 0x000fe20008080147}, false, LateQueue::other, true},
      {"SYNCS.ARRIVE", {0x0001380effff79a7, 0x000fe20008000007}, false, LateQueue::other, false},
      {"ENDCOLLECTIVE", {0x000000000000791b, 0x000fe20003800000}, true, LateQueue::none, true},
      {"UCGABAR_WAIT", {0x0000000000007dc7, 0x000fe20008000000}, false, LateQueue::branch, true},
      {"VOTE", {0x00000000000a7806, 0x000fe200018e0100}, true, LateQueue::none, false},
  };
  for (const Scheduling& r : rows) {
    const Effects e = effects(arch(90), r.word, 0);
    ASSERT_TRUE(e.known) << r.text;
    EXPECT_EQ(e.fixed_latency, r.fixed) << r.text;
    EXPECT_EQ(e.late_queue, r.queue) << r.text;
    EXPECT_EQ(e.may_switch_path, r.switches) << r.text;
  }
}

TEST(Effects, DoublePrecisionNeedsAScoreboardElsewhere) {
  const RawInst dadd{0x0000000018187229, 0x000fca0000000018};
  EXPECT_TRUE(effects(arch(90), dadd, 0).fixed_latency);
  EXPECT_TRUE(effects(arch(100), dadd, 0).fixed_latency);
  for (unsigned sm : {75u, 80u, 86u, 89u, 103u, 120u})
    EXPECT_FALSE(effects(arch(sm), dadd, 0).fixed_latency) << sm;
}

TEST(Effects, Guards) {
  const Effects p =
      effects(arch(90), {0x000000ff06101208, 0x000fe40001000000}, 0);  // @P1 FSEL R16, R6, RZ, P2
  EXPECT_TRUE(p.guarded);
  EXPECT_EQ(p.use.pred, 0x6);
  EXPECT_EQ(p.use.upred, 0);
  const Effects up = effects(arch(90), {0x000000000000889c, 0x000fe20003f4f040}, 0);  // @!UP0 UPLOP3
  EXPECT_TRUE(up.guarded);
  EXPECT_EQ(up.use.pred, 0);
  EXPECT_EQ(up.use.upred, 0x11);
  const Effects never = effects(arch(90), {0x000000000000f918, 0x000fc00000000000}, 0);  // @!PT NOP
  EXPECT_TRUE(never.guarded);
  EXPECT_EQ(never.use.pred, 0);
  EXPECT_FALSE(effects(arch(90), {0x0000000000007918, 0x000fc00000000000}, 0).guarded);
  const Effects s2ur = effects(arch(90), {0x00000000000889c3, 0x000fe20000008800}, 0);  // @!UP0 S2UR
  EXPECT_EQ(s2ur.use.pred, 0);
  EXPECT_EQ(s2ur.use.upred, 1);
  // R2UR and VOTEU run on the uniform datapath but are guarded by an ordinary predicate.
  EXPECT_EQ(effects(arch(90), {0x00000000120e32ca, 0x000fe200000e0000}, 0).use.pred, 0x8);
  EXPECT_EQ(effects(arch(90), {0x00000000003f8886, 0x000fe20002080100}, 0).use.pred, 0x11);
}

TEST(Effects, Depbar) {
  const Effects groups =
      effects(arch(90), {0x0000d1400000791a, 0x000fe20000000000}, 0);  // DEPBAR.LE SB5, 0x5
  EXPECT_TRUE(groups.uses_scoreboard_count);
  EXPECT_EQ(groups.depbar_scoreboard, 5);
  const Effects zero = effects(arch(90), {0x000090000000791a, 0x000fe20000000000}, 0);  // DEPBAR.LE SB1, 0x0
  EXPECT_FALSE(zero.uses_scoreboard_count);
  EXPECT_EQ(zero.depbar_scoreboard, 1);
  EXPECT_EQ(effects(arch(90), {0x0000003f0000791a, 0x000fe20000000000}, 0).depbar_scoreboard,
            7);  // DEPBAR {5,..0}
}

TEST(Effects, WarpgroupAndRegisterLimit) {
  const Effects hgmma = effects(arch(90), {0x01e00000145879f0, 0x000fe2000c7008ff}, 0);
  EXPECT_TRUE(hgmma.async_registers);
  EXPECT_FALSE(hgmma.fixed_latency);
  EXPECT_FALSE(effects(arch(90), {0x0000002e5c7c723c, 0x000fe2000000187c}, 0).async_registers);  // HMMA
  EXPECT_TRUE(effects(arch(90), {0x000000e8000079c8, 0x000fe20008000600}, 0).changes_register_limit);
  EXPECT_EQ(effects(arch(90), {0x000000e8000079c8, 0x000fe20008000600}, 0).register_limit, 0xe8u);
  EXPECT_FALSE(hgmma.changes_register_limit);
}

// A straight-line kernel with known registers: nothing is live at entry, and reading the instructions in
// order reproduces what each of them may rely on.
TEST(Effects, NothingIsLiveAtEntryOfACompiledKernel) {
  const RawInst kernel[] = {
      {0x00000a00ff017b82, 0x000fe20000000800},  // LDC R1, c[0x0][0x28]
      {0x0000000000007919, 0x000e2e0000002100},  // S2R R0, SR_TID.X
      {0x00000000000479c3, 0x000e300000002500},  // S2UR UR4, SR_CTAID.X
      {0x00000000ff057b82, 0x000e240000000800},  // LDC R5, c[0x0][RZ]
      {0x0000000405057c24, 0x001fe2000f8e0200},  // IMAD R5, R5, UR4, R0
      {0x0000880000047ab9, 0x000fc80000000800},  // ULDC UR4, c[0x0][0x220]
      {0x0000000405007c0c, 0x000fda000bf06270},  // ISETP.GE.AND P0, PT, R5, UR4, PT
      {0x000000000000094d, 0x000fea0003800000},  // @P0 EXIT
      {0x00008400ff027b82, 0x000e220000000a00},  // LDC.64 R2, c[0x0][0x210]
      {0x0000820000047ab9, 0x000fe20000000a00},  // ULDC.64 UR4, c[0x0][0x208]
      {0x0000000405027825, 0x001fca00078e0202},  // IMAD.WIDE R2, R5, 0x4, R2
      {0x0000000402007981, 0x0000a4000c1e1900},  // LDG.E R0, desc[UR4][R2.64]
      {0x0000000702007986, 0x0001d8000c101904},  // STG.E desc[UR4][R2.64], R7
  };
  RegSet gpr, ur;
  PredSet pred = 0;
  for (size_t i = std::size(kernel); i-- > 0;) {
    const Effects e = effects(arch(90), kernel[i], static_cast<uint32_t>(i * 16));
    if (!e.guarded) {
      gpr &= ~e.def.gpr;
      ur &= ~e.def.ur;
      pred = static_cast<PredSet>(pred & ~e.def.pred);
    }
    gpr |= e.use.gpr;
    ur |= e.use.ur;
    pred = static_cast<PredSet>(pred | e.use.pred);
  }
  RegSet only_r7;  // the last store's datum comes from code left out here
  only_r7.set(7);
  EXPECT_EQ(gpr, only_r7);
  EXPECT_TRUE(ur.none());
  EXPECT_EQ(pred, 0);
}

}  // namespace
}  // namespace xtrace::sass
