#include "tests/values/own_words.h"

#include <fmt/format.h>

#include "base/check.h"
#include "instrument/sass/assemble.h"
#include "instrument/sass/form.h"

namespace xtrace::values {
namespace {

// Targets are written for a word at word_at; lanes land at the pad, 6 words on: 0x1060. A register with 0x20 in it reaches it
// where 0x1040 is printed.
//
// Registers outside of the window (frame.cc). Class control: R52:R53 and UR30:UR31 are free, R55 = 0x200001 (32 threads at
// barrier 1), R56:R57 and UR32:UR33 = 0x20, R58 = 1, R59 = 32, R60 all ones; cx[UR34] holds the number of the slot and then
// zeros; c[0x0][0x230] to 0x24f are zero. Classes copy, tensor and cluster: UR30:UR31 = 0. The absolute address of the pad is
// put in place of 0x1060 and at c[0x0][0x600] (measure.cc).
constexpr uint32_t word_at = 0x1000;

struct Row {
  Class cls;
  const char* text;
  const char* before = "";  // companions, apart by ';'
  const char* after = "";
};

constexpr Class control = Class::control, copy = Class::copy, tensor = Class::tensor, cluster = Class::cluster;
constexpr const char* pad_address = "LEPC R52, 0x1060";
constexpr const char* uniform_pad_address = "LEPC R52, 0x1060; R2UR UR30, R52; R2UR UR31, R53";

constexpr const char* flush = "UTMACMDFLUSH; DEPBAR.LE SB0, 0x0";

constexpr Row safe_rows[] = {
    // Branches.
    {control, "BRA 0x1060"},
    {control, "@P3 BRA 0x1060"},
    {control, "BRA P0, 0x1060"},
    {control, "@P3 BRA P0, 0x1060"},
    {control, "BRA.U 0x1060"},
    {control, "BRX R56 0x30"},
    {control, "CALL.REL.NOINC 0x1060"},
    {control, "@P3 CALL.REL.NOINC P0, 0x1060"},
    {control, "CALL.REL.NOINC R56 0x1040"},
    {control, "RET.REL.NODEC R56 0x1040"},
    {control, "@P3 RET.REL.NODEC P0, R56 0x1040"},
    {control, "EXIT"},
    {control, "@P3 EXIT"},
    {control, "EXIT P0"},
    {control, "@P3 EXIT P0"},
    // The paths of a warp.
    {control, "BSSY B1, 0x1060"},
    {control, "@P3 BSSY P0, B1, 0x1060"},
    {control, "BSYNC B1", "BSSY B1, 0x1060"},
    {control, "BREAK B1", "BSSY B1, 0x1060"},
    {control, "@P3 BREAK P0, B1", "BSSY B1, 0x1060"},
    {control, "BMOV.32 R40, B1", "BSSY B1, 0x1060"},
    {control, "@P3 BMOV.32 R40, B1", "BSSY B1, 0x1060"},
    {control, "BMOV.32.CLEAR R40, B1", "BSSY B1, 0x1060"},
    {control, "BMOV.32 B2, R8", "", "BMOV.32 R40, B2"},
    {control, "YIELD"},
    {control, "@P3 YIELD P0"},
    {control, "NANOSLEEP 0x20"},
    {control, "@P3 NANOSLEEP P0, 0x20"},
    {control, "NANOSLEEP R59"},
    {control, "@P3 NANOSLEEP.RAND P0, R59"},
    {control, "NANOSLEEP c[0x0][0x230]"},
    {control, "NANOSLEEP UR32"},
    {control, "@P3 NANOSLEEP P0, UR32"},
    {control, "WARPSYNC.ALL"},
    {control, "WARPSYNC R60"},
    {control, "WARPSYNC.COLLECTIVE R60, 0x1060", "", "ENDCOLLECTIVE"},
    {control, "WARPSYNC.COLLECTIVE.ALL 0x1060", "", "ENDCOLLECTIVE"},
    {control, "ENDCOLLECTIVE", "WARPSYNC.COLLECTIVE R60, 0x1060"},
    // Barriers of the CTA, which is this warp.
    {control, "BAR.SYNC.DEFER_BLOCKING 0x0"},
    {control, "BAR.SYNC.DEFER_BLOCKING 0x1, 0x20"},
    {control, "BAR.ARV 0x1, 0x20"},
    {control, "BAR.SYNC R58"},
    {control, "BAR.SYNC R58, 0x20"},
    {control, "BAR.ARV R58, 0x20"},
    {control, "BAR.SYNC R55, R55"},
    {control, "BAR.ARV R55, R55"},
    {control, "BAR.SYNC 0x1, R59"},
    {control, "BAR.ARV 0x1, R59"},
    {control, "BAR.RED.POPC 0x0, P0", "", "B2R.RESULT R40"},
    {control, "BAR.RED.POPC 0x1, R59, P0", "", "B2R.RESULT R40"},
    {control, "BAR.RED.POPC R55, R55, P0", "", "B2R.RESULT R40"},
    {control, "BAR.RED.OR 0x0, P0", "", "B2R.RESULT RZ, P4"},
    {control, "BAR.RED.AND 0x0, P0", "", "B2R.RESULT RZ, P4"},
    {control, "B2R.RESULT R40", "BAR.RED.POPC 0x0, P0"},
    {control, "B2R.RESULT RZ, P4", "BAR.RED.OR 0x0, P0"},
    {control, "@P3 B2R.RESULT RZ, P4", "BAR.RED.OR 0x0, P0"},
    {control, "B2R.WARP R40"},
    // Waits and hints.
    {control, "DEPBAR.LE SB0, 0x0"},
    {control, "LDGDEPBAR", "", "DEPBAR.LE SB0, 0x0"},
    {control, "PREEXIT"},
    {control, "@P3 PREEXIT"},
    {control, "ACQBULK"},
    {control, "RPCMOV.32 Rpc.LO, R8", "", "RPCMOV.32 R40, Rpc.LO"},
    {control, "RPCMOV.32 R40, Rpc.LO", "RPCMOV.32 Rpc.LO, R8"},
    {control, "@P3 RPCMOV.32 R40, Rpc.LO", "RPCMOV.32 Rpc.LO, R8"},
    {control, "UTMACMDFLUSH"},
    {Class::group, "WARPGROUP.ARRIVE", "", "WARPGROUP.DEPBAR.LE gsb0, 0x0"},
    {Class::group, "WARPGROUP.DEPBAR.LE gsb0, 0x0"},
    // Copies from global to shared memory by the lanes.
    {copy, "LDGSTS.E [R40], desc[UR36][R8.64]", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "LDGSTS.E.64 [R40], desc[UR36][R8.64]", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "@P3 LDGSTS.E.128 [R40], desc[UR36][R8.64]", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "LDGSTS.E.BYPASS.128 [R40], desc[UR36][R8.64]", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "LDGSTS.E.BYPASS.LTC128B.128 [R40], desc[UR36][R8.64], P0", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "LDGSTS.E.64 [R40], [R8.64], P0", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "LDGSTS.E [R40], [R8.64], P0", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "LDGSTS.E.128 [R40+UR30], [R8.64]", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "@P3 LDGSTS.E [R40+UR30], [R8.64], P0", "", "LDGDEPBAR; DEPBAR.LE SB0, 0x0"},
    {copy, "ARRIVES.LDGSTSBAR.64.ARVCNT [URZ+0x100]"},
    {control, "BRA.U UP4, 0x1060"},
    {control, "@P3 BRA.U P0, UP4, 0x1060"},
    // Copies through tensor maps.
    {tensor, "UTMALDG.1D [UR8], [UR4]"},
    {tensor, "UTMALDG.2D [UR8], [UR4]"},
    {tensor, "UTMALDG.3D [UR8], [UR4]"},
    {tensor, "UTMALDG.4D [UR8], [UR4]"},
    {tensor, "UTMALDG.5D [UR8], [UR4]"},
    {tensor, "UTMALDG.2D [UR8], [UR4], desc[UR24]"},
    {tensor, "@UP3 UTMALDG.2D [UR8], [UR4]"},
    {tensor, "UTMASTG.1D [UR16], [UR4]", "", flush},
    {tensor, "UTMASTG.2D [UR16], [UR4]", "", flush},
    {tensor, "UTMASTG.3D [UR16], [UR4]", "", flush},
    {tensor, "UTMASTG.4D [UR16], [UR4]", "", flush},
    {tensor, "UTMASTG.5D [UR16], [UR4]", "", flush},
    {tensor, "UTMASTG.2D [UR16], [UR4], desc[UR24]", "", flush},
    {tensor, "@UP3 UTMASTG.2D [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.1D.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.3D.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.4D.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.5D.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.MIN [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.MAX [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.INC [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.DEC [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.AND [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.OR [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.2D.XOR [UR16], [UR4]", "", flush},
    {tensor, "@UP3 UTMAREDG.2D.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAPF.L2.1D [UR16], [UR4]"},
    {tensor, "UTMAPF.L2.3D [UR16], [UR4]"},
    {tensor, "@UP3 UTMAPF.L2.2D [UR16], [UR4]"},
    {tensor, "UTMACCTL.IV [UR4]"},
    {tensor, "@UP3 UTMACCTL.IV [UR4]"},
    {tensor, "UTMACCTL.PF [UR4]"},
};
// These may stop the GPU.
constexpr Row risky_rows[] = {
    {control, "EXIT.NO_ATEXIT"},
    {control, "EXIT.KEEPREFCOUNT"},
    {control, "BRA.U.ANY P0, 0x1060"},
    {control, "BRA.DIV P0, 0x1060"},
    {control, "BRA.INC P0, 0x1060"},
    {control, "BRA.DEC P0, 0x1060"},
    {control, "BRA.DIV UR8, 0x1060"},
    {control, "BRA.CONV UR8, 0x1060"},
    {control, "BRXU UR32 0x30"},
    {control, "JMX R52", pad_address},
    {control, "@P3 JMX P0, R52", pad_address},
    {control, "JMXU UR30", uniform_pad_address},
    {control, "CALL.ABS.NOINC R52", pad_address},
    {control, "CALL.ABS.NOINC UR30", uniform_pad_address},
    {control, "CALL.REL.NOINC UR32 0x1040"},
    {control, "CALL.REL 0x1060"},
    {control, "RET.ABS.NODEC R52 0x0", pad_address},
    {control, "RET.REL.NODEC UR32 0x1040"},
    {control, "RET.ABS.NODEC UR30 0x0", uniform_pad_address},
    {control, "BMOV.32 B2, 0x5", "", "BMOV.32 R40, B2"},
    {control, "BMOV.32 B2, c[0x0][0x254]", "", "BMOV.32 R40, B2"},
    {control, "BMOV.32 B2, UR8", "", "BMOV.32 R40, B2"},
    {control, "BMOV.32 B2, cx[UR34][0x4]", "", "BMOV.32 R40, B2"},
    {control, "BMOV.32 B2, B1", "BSSY B1, 0x1060", "BMOV.32 R40, B2"},
    {control, "BMOV.32.CLEAR B2, B1", "BSSY B1, 0x1060", "BMOV.32 R40, B2"},
    {control, "BMOV.32.PQUAD B2, R8", "", "BMOV.32 R40, B2"},
    {control, "BMOV.64 ATEXIT_PC, RZ"},
    {control, "BMOV.64 ATEXIT_PC, 0x0"},
    {control, "BMOV.64 ATEXIT_PC, c[0x0][0x230]"},
    {control, "BMOV.64 ATEXIT_PC, URZ"},
    {control, "BMOV.64 ATEXIT_PC, cx[UR34][0x8]"},
    {control, "NANOSLEEP cx[UR34][0x4]"},
    {control, "NANOSLEEP.WARP R59"},
    {control, "NANOSLEEP.SYNCS R59"},
    {control, "WARPSYNC.EXCLUSIVE R60"},
    {control, "BAR.SCAN R55, R55, P0", "", "B2R.RESULT R40"},
    {control, "BAR.SCAN 0x1, R59, P0", "", "B2R.RESULT R40"},
    {control, "DEPBAR"},
    {control, "SYNCS.CCTL.IVALL"},
    {control, "SYNCS.CCTL.WBALL"},
    {control, "PMTRIG 0x0"},
    {control, "R2B R58"},
    {control, "UCGABAR_ARV", "", "UCGABAR_WAIT"},
    {control, "UCGABAR_WAIT", "UCGABAR_ARV"},
    {control, "UCGABAR_GET UR20"},
    {control, "UCGABAR_SET UR30", "UCGABAR_GET UR30"},
    {control, "USETSHMSZ.FLUSH"},
    {control, "USETMAXREG.DEALLOC.CTAPOOL 0x40"},
    {control, "USETMAXREG.TRY_ALLOC.CTAPOOL UP4, 0x40"},
    {copy, "UBLKCP.S.G [UR12], [UR8], UR16"},
    {copy, "@UP3 UBLKCP.S.G [UR12], [UR8], UR16"},
    {copy, "UBLKCP.G.S [UR8], [UR12], UR16"},
    {copy, "UBLKPF.L2 [UR8], UR16"},
    {copy, "STAS [R40.64], R32"},
    {copy, "STAS.64 [R40.64], R32"},
    {copy, "STAS.128 [R40.64], R32"},
    {copy, "REDAS.ADD [R40.U32+UR30], R32"},
    {control, "KILL"},
    {control, "IDE 0x0"},
    {control, "RTT"},
    {control, "NANOTRAP 0x0"},
    {control, "NANOTRAP c[0x0][0x230]"},
    {control, "NANOTRAP RZ"},
    {control, "BPT.INT 0x1"},
    {control, "BPT.TRAP 0x1"},
    {control, "JMP 0x1060"},
    {control, "@P3 JMP P0, 0x1060"},
    {control, "JMP c[0x0][0x600]"},
    {control, "@P3 JMP P0, c[0x0][0x600]"},
    {control, "CALL.ABS.NOINC 0x1060"},
    {control, "@P3 CALL.ABS.NOINC P0, 0x1060"},
    {control, "CALL.ABS.NOINC c[0x0][0x600]"},
    {control, "@P3 CALL.ABS.NOINC P0, c[0x0][0x600]"},
    {control, "USETMAXREG.DEALLOC.CTAPOOL UR30", "UMOV UR30, 0x40"},
    {control, "USETMAXREG.TRY_ALLOC.CTAPOOL UP4, UR30", "UMOV UR30, 0x40"},
    {control, "USETSHMSZ UR30", "UMOV UR30, 0x4400"},
    {control, "USETSHMSZ 0x4400"},
    {copy, "UBLKRED.G.S.ADD [UR8], [UR12], UR16", "", flush},
    {copy, "@UP3 UBLKRED.G.S.ADD [UR8], [UR12], UR16", "", flush},
    {copy, "UBLKRED.G.S.MIN.S32 [UR8], [UR12], UR16", "", flush},
    {copy, "UBLKRED.G.S.XOR [UR8], [UR12], UR16", "", flush},
    {tensor, "UTMALDG.2D.MULTICAST [UR8], [UR4], UR22"},
    {tensor, "@UP3 UTMALDG.3D.MULTICAST [UR8], [UR4], UR22"},
    {tensor, "UTMALDG.3D.IM2COL [UR8], [UR4], UR23"},
    {tensor, "UTMALDG.4D.IM2COL [UR8], [UR4], UR23"},
    {tensor, "UTMALDG.5D.IM2COL [UR8], [UR4], UR23"},
    {tensor, "UTMASTG.3D.IM2COL [UR16], [UR4]", "", flush},
    {tensor, "UTMAREDG.3D.IM2COL.ADD [UR16], [UR4]", "", flush},
    {tensor, "UTMAPF.L2.3D.IM2COL [UR20], [UR4], UR23"},
    {cluster, "UCGABAR_ARV", "", "UCGABAR_WAIT"},
    {cluster, "UCGABAR_WAIT", "UCGABAR_ARV"},
    {cluster, "UCGABAR_GET UR20"},
    {cluster, "UCGABAR_SET UR30", "UCGABAR_GET UR30", "UCGABAR_GET UR20"},
    {cluster, "STAS [R40.64], R32"},
    {cluster, "STAS.64 [R40.64], R32"},
    {cluster, "STAS.128 [R40.64], R32"},
    {cluster, "@P3 STAS [R40.64], R32"},
    {cluster, "REDAS.ADD [R40.64], R32"},
    {cluster, "@P3 REDAS.ADD [R40.64], R32"},
    {cluster, "REDAS.ADD.S32 [R40.64], R32"},
    {cluster, "REDAS.ADD.64 [R40.64], R32"},
    {cluster, "REDAS.MIN [R40.64], R32"},
    {cluster, "REDAS.MIN.S32 [R40.64], R32"},
    {cluster, "REDAS.MAX [R40.64], R32"},
    {cluster, "REDAS.INC [R40.64], R32"},
    {cluster, "REDAS.DEC [R40.64], R32"},
    {cluster, "REDAS.AND [R40.64], R32"},
    {cluster, "REDAS.OR [R40.64], R32"},
    {cluster, "REDAS.XOR [R40.64], R32"},
    {cluster, "STAS [R40.64+UR30], R32"},
};

sass::RawInst word_of(std::string_view text, uint32_t pc) {
  const auto w = sass::assemble(**sass::find_arch(90), std::string(text), pc);
  if (!w) fmt::print(stderr, "{}: {}\n", text, w.error().to_string());
  XT_CHECK(w.has_value(), "a word of the table does not assemble");
  return *w;
}

std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> all;
  while (!list.empty()) {
    const size_t end = std::min(list.find(';'), list.size());
    all.push_back(list.substr(list.find_first_not_of(' '), end - list.find_first_not_of(' ')));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return all;
}

struct Own {
  std::vector<Word> words;  // of safe_rows, then of risky_rows
  std::vector<Companions> companions;
};
const Own& own() {
  static const Own all = [] {
    Own o;
    std::vector<Row> all(std::begin(safe_rows), std::end(safe_rows));
    all.insert(all.end(), std::begin(risky_rows), std::end(risky_rows));
    for (const Row& r : all) {
      Word w{word_of(r.text, word_at), r.cls};
      set_bits(w.inst, bits(124, 105), 0);
      o.words.push_back(w);
      Companions c;
      const auto before = parts(r.before), after = parts(r.after);
      const auto inst_bytes = static_cast<uint32_t>(sass::inst_bytes);
      for (size_t k = 0; k < before.size(); ++k)
        c.before.push_back(word_of(before[k], word_at - static_cast<uint32_t>(max_companions - k) * inst_bytes));
      for (size_t k = 0; k < after.size(); ++k)
        c.after.push_back(word_of(after[k], word_at + static_cast<uint32_t>(k + 1) * inst_bytes));
      o.companions.push_back(std::move(c));
    }
    return o;
  }();
  return all;
}

size_t index_of(const Word& w) {
  const std::vector<Word>& words = own().words;
  return static_cast<size_t>(std::find(words.begin(), words.end(), w) - words.begin());
}

}  // namespace

Companions companions(const Word& w) {
  if (const sass::Form* f = sass::find_form(**sass::find_arch(90), w.inst); f != nullptr && f->cls == sass::OpClass::gmma)
    return {{word_of("WARPGROUP.ARRIVE", word_at)}, {word_of("WARPGROUP.DEPBAR.LE gsb0, 0x0", word_at)}};
  const size_t at = index_of(w);
  return at == own().words.size() ? Companions() : own().companions[at];
}

bool may_stop(const Word& w) { return index_of(w) >= std::size(safe_rows) && index_of(w) < own().words.size(); }

const std::vector<Word>& own_words() { return own().words; }

}  // namespace xtrace::values
