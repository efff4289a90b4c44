// xtrace sass explain: one instruction word, bit by bit.
#include <charconv>

#include "instrument/sass/describe.h"
#include "instrument/sass/effects.h"
#include "instrument/sass/print.h"
#include "tools/xtrace/cmd_sass.h"
#include "tools/xtrace/table.h"

namespace xtrace::cli {
namespace {

constexpr unsigned default_sm = 90;

// "0xHI_LO", "HI_LO" or 32 hexadecimal digits.
Result<sass::RawInst> parse_word(std::string_view text) {
  std::string digits;
  for (char c : text)
    if (c != '_' && c != ' ') digits += c;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.erase(0, 2);
  sass::RawInst w;
  const auto half = [](std::string_view s, uint64_t& v) {
    const auto r = std::from_chars(s.data(), s.data() + s.size(), v, 16);
    return r.ec == std::errc{} && r.ptr == s.data() + s.size();
  };
  const std::string_view all = digits;
  if (digits.size() != 32 || !half(all.substr(0, 16), w.hi) || !half(all.substr(16), w.lo))
    return with_hint(
        bad_input("'{}' is no instruction word: expected 32 hexadecimal digits, found {} characters", text,
                  digits.size()),
        "high half first, as in 000fe20000000f00_0000001100272202");
  return w;
}

std::string registers(const sass::RegEffects& e) {
  std::string s;
  const auto put = [&](std::string_view prefix, size_t i) { s += fmt::format(" {}{}", prefix, i); };
  for (size_t i = 0; i < e.gpr.size(); ++i)
    if (e.gpr[i]) put("R", i);
  for (size_t i = 0; i < e.ur.size(); ++i)
    if (e.ur[i]) put("UR", i);
  for (size_t i = 0; i < 7; ++i)
    if ((e.pred >> i & 1) != 0) put("P", i);
  for (size_t i = 0; i < 7; ++i)
    if ((e.upred >> i & 1) != 0) put("UP", i);
  for (size_t i = 0; i < 16; ++i)
    if ((e.barrier >> i & 1) != 0) put("B", i);
  return s.empty() ? " nothing" : s;
}

}  // namespace

Result<int> sass_explain(const SassOptions& options) {
  XT_TRY(const sass::RawInst w, parse_word(options.input));
  XT_TRY(const sass::Arch* arch,
         sass::find_arch(options.sm == 0 ? default_sm : static_cast<unsigned>(options.sm)));
  const sass::Effects e = sass::effects(*arch, w, 0);
  fmt::print("{:016x}_{:016x} on {}\n  {}\n\n", w.hi, w.lo, arch->name, sass::print(*arch, w, 0));
  if (e.known) {
    fmt::print("writes {}\nreads  {}\n", registers(e.def), registers(e.use));
    fmt::print(
        "result  {}{}\n\n",
        e.fixed_latency ? "after a fixed number of cycles" : "after a variable time: a scoreboard says when",
        e.exact ? "" : "; some of these registers are upper bounds");
  } else {
    fmt::print("no form of the table: counts as reading and writing everything\n\n");
  }
  Table table({{"bits", Align::right}, {"value", Align::right}, {"field"}, {"meaning"}});
  for (const sass::WordField& f : sass::describe_word(*arch, w))
    table.add_row({f.high == f.low ? fmt::format("[{}]", f.low) : fmt::format("[{}:{}]", f.high, f.low),
                   f.high - f.low < 8 ? fmt::format("{:0{}b}", f.value, f.high - f.low + 1)
                                      : fmt::format("{:#x}", f.value),
                   f.name, f.meaning});
  fmt::print("{}", table.render());
  return 0;
}

}  // namespace xtrace::cli
