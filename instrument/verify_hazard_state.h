// What may still be under way in front of a word, on some path to it (verify_hazards.cc):
//
//   store_reads[sb]   registers that an inserted store has not read yet, released by scoreboard sb
//   results[sb]       registers that wait for a result under scoreboard sb (S2R, LDG of the prologue); uniform_results[sb]
//                     likewise (R2UR in front of sm_90)
//   originals[sb]     registers that wait for a result of an original instruction under scoreboard sb; uniform_originals[sb],
//                     predicate_originals[sb] likewise
//   countdowns        cycles until a fixed-latency result of inserted code may be used, by kind of user; and until one of the
//                     original code has arrived for certain
//   probe_value       registers whose last writer on every path is inserted code
//   probe_guard       predicates likewise
//   unseen[sb]        cycles until a wait for scoreboard sb sees that an inserted instruction took it
//   fresh[sb]         results of the original instruction that took scoreboard sb so shortly before that a wait of inserted code may not
//                     see it: they are not there behind that wait
//   untold            registers with results of original instructions of variable latency and without a scoreboard: nobody knows
//                     when they arrive; in_order[kind]: where the scoreboard of a later one covers them
//   returned          predicates of the kernel that inserted code has given back, until the kernel writes them
//   unread            registers that inserted code computed, on every path, and that nobody has read since
#pragma once

#include <array>

#include "instrument/liveness.h"

namespace xtrace::instrument::hazards {

using sass::RegSet;

struct Countdown {
  std::array<uint8_t, 256> vector_alu{}, vector_memory{};   // vector register -> use by ALU / by memory instruction
  std::array<uint8_t, 64> uniform_alu{}, uniform_other{};   // uniform register -> uniform ALU / vector or memory
  std::array<uint8_t, 7> guard{};                           // predicate -> guard
  std::array<uint8_t, 256> vector_original{};               // of the original code, for any use
  std::array<uint8_t, 64> uniform_original{};
  std::array<uint8_t, 7> predicate_original{};
};

struct State {
  std::array<RegSet, 6> store_reads, results, uniform_results, originals, uniform_originals;
  std::array<sass::PredSet, 6> predicate_originals{};
  Countdown left;
  std::array<uint8_t, 6> unseen{};   // cycles until a wait for the scoreboard sees that it was taken
  struct Fresh {
    RegSet vector, uniform;
    sass::PredSet predicates = 0;
  };
  std::array<Fresh, 6> fresh;
  std::array<uint8_t, 6> fresh_for{};   // cycles
  RegSet probe_value, unread, untold;
  std::array<RegSet, kinds_in_order> in_order;
  sass::PredSet probe_guard = 0, returned = 0;
  bool visited = false;
};

// `to`: what is under way on the paths that it stands for, and on those of `from`. True: it has changed.
bool join(State& to, const State& from);

}  // namespace xtrace::instrument::hazards
