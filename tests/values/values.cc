// Single instructions by value. Commands:
//   values list                  forms and words, and what is not checked, with reasons
//   values frame STEP [CLASS]    every STEP-th word through the frame on the interpreter, against its direct execution; of
//                                words that only the frame executes: what they write and read
//   values measure FOLDER all|new SECONDS PROCESSES [CLASS...]   words on the GPU, of these classes or of all, results into
//                                FOLDER; new: those not in h200.txt
//   values effects FILE          of rows like those of h200.txt: what each writes and reads, and where that is not what the table says
//   values replay                the recorded words on the interpreter
//   values compare FOLDER        differences between kept results and the interpreter
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "replay/interp/interp_backend.h"
#include "tests/values/own_words.h"
#include "tests/values/recorded.h"
#include "tests/values/resources.h"

namespace xtrace::values {
namespace {

int fail(const Error& e) {
  fmt::print(stderr, "values: {}\n", e.to_string());
  return 3;
}

int list() {
  const WordList l = word_list();
  fmt::print("{} words of {} forms; sm_90 has {}\n", l.words.size(), l.forms_with_words, l.forms);
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const NotChecked& n : l.not_checked) by_reason[n.reason].push_back(n.form);
  for (const auto& [reason, forms] : by_reason) fmt::print("{}: {}\n", reason, fmt::join(forms, ", "));
  std::vector<size_t> count(classes);
  for (const Word& w : l.words) ++count[static_cast<size_t>(w.cls)];
  for (unsigned c = 0; c < classes; ++c) fmt::print("{}: {} words\n", name(static_cast<Class>(c)), count[c]);
  std::map<std::string, size_t> refused;
  size_t executed = 0;
  std::vector<std::vector<WarpState>> inputs(classes);
  for (unsigned c = 0; c < classes; ++c) inputs[c] = input_states(static_cast<Class>(c));
  const auto backend = replay::make_interp_backend();
  Runner runner(*backend);
  for (const Word& w : l.words) {
    const DirectResult r =
        is_framed(w.cls) ? run_framed(runner, w) : run_direct(w, inputs[static_cast<size_t>(w.cls)], 16);
    if (r.refused.empty())
      ++executed;
    else
      ++refused[form_name(w.inst).substr(0, form_name(w.inst).find(' ')) + ": " + r.refused];
  }
  fmt::print("the interpreter executes {}\n", executed);
  for (const auto& [why, n] : refused) fmt::print("  {} {}\n", n, why);
  return 0;
}

int frame(unsigned step, const std::string& only) {
  const WordList l = word_list();
  const auto backend = replay::make_interp_backend();
  Runner runner(*backend);
  size_t same = 0, other = 0;
  for (unsigned c = 0; c < classes; ++c)
    for (size_t i = 0; i < l.words.size(); i += step) {
      const Word& w = l.words[i];
      if (static_cast<unsigned>(w.cls) != c || reads_the_machine(w.inst)) continue;
      if (!only.empty() && only != name(w.cls)) continue;
      static std::vector<WarpState> inputs;
      static std::optional<Class> of;
      if (of != w.cls) inputs = input_states(w.cls), of = w.cls;
      const DirectResult direct = is_framed(w.cls) ? run_framed(runner, w) : run_direct(w, inputs);
      if (!direct.refused.empty()) continue;
      if (is_framed(w.cls)) {
        const Measured m = evaluate(inputs, direct.states);
        fmt::print("{} [{}]: writes {} reads {} {}\n", text(w), name(w.cls), text(m.changed), text(m.moved),
                   contradiction(w, m));
        continue;
      }
      if (const Status s = runner.load(std::span(&w, 1)); !s) return fail(s.error());
      const auto out = runner.run(0);
      if (!out) return fail(out.error());
      const Measured m = evaluate(inputs, *out);
      const bool equal = m.digest == digest(direct.states);
      ++(equal ? same : other);
      const std::string odd = contradiction(w, m);
      if (!equal || !odd.empty())
        fmt::print("{} [{}]: {} {}\n", text(w), name(w.cls), equal ? "" : "differs", odd);
    }
  fmt::print("{} words equal, {} not\n", same, other);
  return other == 0 ? 0 : 1;
}

int measure(const std::filesystem::path& folder, bool all, double seconds, unsigned processes,
            const std::vector<std::string>& of_classes) {
  std::vector<Word> words = word_list().words;
  std::erase_if(words, [&](const Word& w) {
    return !of_classes.empty() && std::find(of_classes.begin(), of_classes.end(), name(w.cls)) == of_classes.end();
  });
  std::map<std::pair<uint16_t, Class>, unsigned> seen;
  if (!all) {
    const auto recorded = parse_recorded(recorded_results());
    if (!recorded) return fail(recorded.error());
    for (const RecordedWord& r : *recorded) ++seen[{sass::opcode13(r.word.inst), r.word.cls}];
    std::erase_if(words, [&](const Word& w) {
      return std::any_of(recorded->begin(), recorded->end(),
                         [&](const RecordedWord& r) { return r.word == w; });
    });
  }
  // A few of every form first, should the time not suffice.
  std::vector<std::pair<unsigned, Word>> ranked;
  for (const Word& w : words)
    ranked.emplace_back(seen[{sass::opcode13(w.inst), w.cls}]++ / 3 + (may_stop(w) ? 1 : 0), w);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second.cls > b.second.cls;
  });
  for (size_t i = 0; i < words.size(); ++i) words[i] = ranked[i].second;
  WorkOptions o;
  o.folder = folder;
  o.seconds = seconds;
  o.processes = processes;
  o.keep_results = true;
  const auto outcomes = measure_all(words, o);
  if (!outcomes) return fail(outcomes.error());
  size_t count[3] = {};
  std::ofstream results(folder / "results.txt");
  for (size_t i = 0; i < words.size(); ++i) {
    ++count[static_cast<size_t>((*outcomes)[i].kind)];
    if ((*outcomes)[i].kind != Outcome::Kind::not_reached)
      results << to_text({words[i], (*outcomes)[i]}) << '\n';
  }
  fmt::print("{} words: {} measured, {} faults, {} not reached\n", words.size(), count[1], count[2],
             count[0]);
  return 0;
}

int effects(const std::filesystem::path& file) {
  std::ifstream in(file);
  const auto rows = parse_recorded(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!rows) return fail(rows.error());
  for (const RecordedWord& r : *rows) {
    const Outcome& o = r.outcome;
    fmt::print("{:016x} {:016x} [{}] {} {:#x}: ", r.word.inst.lo, r.word.inst.hi, name(r.word.cls), text(r.word),
               sass::opcode13(r.word.inst));
    if (o.kind == Outcome::Kind::fault) {
      fmt::print("{}\n", o.why);
      continue;
    }
    const std::string odd = contradiction(r.word, o.measured), unseen = not_seen(r.word, o.measured);
    fmt::print("writes {} reads {}{}{}{}{}\n", text(o.measured.changed), text(o.measured.moved), odd.empty() ? "" : "; BUT ", odd,
               unseen.empty() ? "" : "; ", unseen);
  }
  return 0;
}

// The rows of one word that keep() wrote.
struct Kept {
  uint32_t word = 0;
  std::vector<uint32_t> which;
  std::vector<std::array<uint32_t, 32>> values;  // by row, then warp
};
std::vector<Kept> read_kept(const std::filesystem::path& folder) {
  std::vector<Kept> all;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".raw") continue;
    std::ifstream in(file.path(), std::ios::binary);
    const auto get = [&](void* p, size_t n) {
      return static_cast<bool>(in.read(static_cast<char*>(p), static_cast<std::streamsize>(n)));
    };
    uint32_t head[2];
    while (get(head, sizeof head)) {
      Kept k;
      k.word = head[0];
      k.which.resize(head[1]);
      k.values.resize(size_t{head[1]} * kept_warps);
      if (!get(k.which.data(), k.which.size() * 4) || !get(k.values.data(), k.values.size() * 128)) break;
      all.push_back(std::move(k));
    }
  }
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.word < b.word; });
  return all;
}

int compare(const std::filesystem::path& folder, const std::string& filter, size_t most) {
  std::vector<Word> words = read_words(folder);
  if (words.empty()) words = word_list().words;
  std::vector<std::vector<WarpState>> inputs(classes);
  for (unsigned c = 0; c < classes; ++c) inputs[c] = input_states(static_cast<Class>(c));
  for (const Kept& k : read_kept(folder)) {
    const Word& w = words.at(k.word);
    const std::string name_of = text(w);
    if (name_of.find(filter) == std::string::npos) continue;
    const std::vector<WarpState>& in = inputs[static_cast<size_t>(w.cls)];
    const DirectResult direct = run_direct(w, in, kept_warps);
    const Expected x = expected(w);
    if (!direct.refused.empty())
      fmt::print("{} {:016x} {:016x}: refused: {}\n", name_of, w.inst.lo, w.inst.hi, direct.refused);
    size_t wrong = 0;
    std::string first;
    for (size_t r = 0; r < k.which.size(); ++r)
      for (unsigned v = 0; v < kept_warps; ++v)
        for (unsigned lane = 0; lane < 32; ++lane) {
          const uint32_t hardware = k.values[r * kept_warps + v][lane];
          const bool known = direct.refused.empty();
          const uint32_t ours = known ? direct.states[v].row[k.which[r]][lane] : 0;
          if (known && hardware == ours) continue;
          if (k.which[r] == uniform_row && known && lane > up_lane) continue;
          if (++wrong > most) continue;
          first += fmt::format("    row {} warp {} lane {}: {:08x}, ours {:08x} <-", k.which[r], v, lane,
                               hardware, ours);
          for (unsigned n = 0; n < places - 1; ++n) {
            if (!x.use[n]) continue;
            const Place p = place(n);
            const WarpState& s = in[v];
            switch (p.kind) {
              case Place::Kind::gpr:
                first += fmt::format(" R{}={:08x}", p.index, s.row[p.index - first_gpr][lane]);
                break;
              case Place::Kind::ur:
                first += fmt::format(" UR{}={:08x}", p.index, s.row[uniform_row][p.index - first_ur]);
                break;
              case Place::Kind::pred:
                first += fmt::format(" P{}={}", p.index, s.row[predicate_row][lane] >> p.index & 1);
                break;
              default:
                first += fmt::format(" UP{}={}", p.index, s.row[uniform_row][up_lane] >> p.index & 1);
            }
          }
          first += '\n';
        }
    if (direct.refused.empty() && wrong > 0)
      fmt::print("{} {:016x} {:016x}: {} of {} differ\n", name_of, w.inst.lo, w.inst.hi, wrong,
                 k.values.size() * 32);
    if (most > 0) fmt::print("{}", first);
  }
  return 0;
}

}  // namespace
}  // namespace xtrace::values

int main(int argc, char** argv) {
  using namespace xtrace::values;
  const std::vector<std::string> a(argv + 1, argv + argc);
  if (a.size() == 1 && a[0] == "list") return list();
  if (a.size() >= 2 && a[0] == "frame")
    return frame(static_cast<unsigned>(std::stoul(a[1])), a.size() > 2 ? a[2] : "");
  if (a.size() >= 5 && a[0] == "measure")
    return measure(a[1], a[2] == "all", std::stod(a[3]), static_cast<unsigned>(std::stoul(a[4])), {a.begin() + 5, a.end()});
  if (a.size() == 2 && a[0] == "effects") return effects(a[1]);
  if (a.size() >= 2 && a[0] == "compare")
    return compare(a[1], a.size() > 2 ? a[2] : "", a.size() > 3 ? std::stoul(a[3]) : 0);
  if (a.size() == 1 && a[0] == "replay") {
    const auto recorded = parse_recorded(recorded_results());
    if (!recorded) return fail(recorded.error());
    const Replayed r = replay_recorded(*recorded);
    fmt::print("{} equal, {} refused, {} different\n", r.equal, r.refused, r.different.size());
    for (const std::string& d : r.different) fmt::print("{}\n", d);
    return 0;
  }
  fmt::print(stderr, "see the head of values.cc\n");
  return 64;
}
