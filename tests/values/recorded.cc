#include "tests/values/recorded.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <thread>

#include "replay/interp/interp_backend.h"

namespace xtrace::values {

Result<std::vector<RecordedWord>> parse_recorded(std::string_view text_) {
  std::vector<RecordedWord> all;
  std::istringstream lines{std::string(text_)};
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const size_t end = line.find(" ; ");
    std::istringstream fields(line.substr(0, end));
    RecordedWord r;
    std::string cls, first;
    bool good = end != std::string::npos &&
                static_cast<bool>(fields >> std::hex >> r.word.inst.lo >> r.word.inst.hi >> cls >> first);
    unsigned c = 0;
    while (c < classes && cls != name(static_cast<Class>(c))) ++c;
    good = good && c < classes;
    r.word.cls = static_cast<Class>(c);
    if (first == "fault") {
      r.outcome.kind = Outcome::Kind::fault;
      std::getline(fields >> std::ws, r.outcome.why);
    } else if (good) {
      std::string changed, moved;
      fields >> changed >> moved;
      const auto m = from_line(first, changed, moved);
      good = m.has_value();
      if (m) r.outcome = {Outcome::Kind::measured, *m, {}};
    }
    if (!good) return bad_input("line {} of the recorded results does not read: {}", number, line);
    all.push_back(std::move(r));
  }
  return all;
}

std::string to_text(const RecordedWord& r) {
  return fmt::format(
      "{:016x} {:016x} {} {} ; {}", r.word.inst.lo, r.word.inst.hi, name(r.word.cls),
      r.outcome.kind == Outcome::Kind::measured ? to_line(r.outcome.measured) : "fault " + r.outcome.why,
      text(r.word));
}

Replayed replay_recorded(const std::vector<RecordedWord>& recorded) {
  std::vector<std::vector<WarpState>> inputs;
  for (unsigned c = 0; c < classes; ++c) inputs.push_back(input_states(static_cast<Class>(c)));
  Replayed result;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < recorded.size();) {
      const RecordedWord& r = recorded[i];
      if (r.outcome.kind != Outcome::Kind::measured || !values_are_compared(r.word) || is_framed(r.word.cls)) continue;
      const DirectResult direct = run_direct(r.word, inputs[static_cast<size_t>(r.word.cls)]);
      const bool equal = direct.refused.empty() && digest(direct.states) == r.outcome.measured.digest;
      const std::lock_guard lock(mutex);
      if (!direct.refused.empty())
        ++result.refused;
      else if (equal)
        ++result.equal;
      else
        result.different.push_back(text(r.word));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned k = 0; k < std::max(1u, std::thread::hardware_concurrency()); ++k) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  const auto backend = replay::make_interp_backend();
  Runner runner(*backend);
  for (const RecordedWord& r : recorded) {
    if (r.outcome.kind != Outcome::Kind::measured || !is_framed(r.word.cls)) continue;
    const DirectResult framed = run_framed(runner, r.word);
    if (!framed.refused.empty())
      ++result.refused;
    else if (digest(std::span(framed.states).first(set_warps)) == r.outcome.measured.digest)
      ++result.equal;
    else
      result.different.push_back(text(r.word));
  }
  return result;
}

}  // namespace xtrace::values
