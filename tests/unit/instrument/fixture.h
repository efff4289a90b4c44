// The fixture cubins, and a spliced kernel with the claims that the verifier wants.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "instrument/instrument.h"
#include "instrument/sass/inst.h"
#include "instrument/verify.h"

namespace xtrace::instrument::test {

struct Kernel {
  std::filesystem::path file;
  std::string name;
  Bytes cubin;
};

// Every kernel of every cubin below fixtures/cubins/<arch>.
std::vector<Kernel> fixture_kernels(const std::string& arch);
// The kernel whose name contains `part`; fails the test when there is none.
Kernel fixture_kernel(const std::string& part);

LaunchShape small_shape();
// Addresses and sizes of a plausible buffer.
wire::SlotLayout some_layout(const LaunchShape& shape, bool table, bool wraps);
Plan plan_of(ProbeKind probe, uint32_t one_in = 1);

struct Case {
  Kernel kernel;
  Spliced spliced;
  SpliceClaims claims;
  std::vector<Violation> verify(ByteView cubin) const;
  std::vector<Violation> verify() const { return verify(spliced.cubin); }
};
// Splices; fails the test on an error.
Case splice_case(const Kernel& kernel, const Plan& plan, bool table = false);

// Under `block` with short records, all lanes in all blocks, each executed so often, or all equally often; nothing where the kernel is
// refused. Fails the test where the verifier finds something.
std::optional<Case> short_block_case(const Kernel& kernel, const LaunchShape& shape, const std::vector<uint64_t>& executions = {});

// A word of the kernel's text in a cubin, by index.
sass::RawInst word_at(const Case& c, ByteView cubin, uint32_t index);
void set_word(const Case& c, Bytes& cubin, uint32_t index, const sass::RawInst& w);
uint32_t word_count(const Case& c);
// Whether a word is one that the splice put in; the prologue's are as well.
bool inserted(const Case& c, uint32_t index);

// Names of the rules that are broken: at once, and after `change` to one word.
std::set<std::string> rules(const std::vector<Violation>& violations);
template <typename F>
std::set<std::string> broken(const Case& c, uint32_t index, F change) {
  Bytes cubin = c.spliced.cubin;
  sass::RawInst w = word_at(c, cubin, index);
  change(w);
  set_word(c, cubin, index, w);
  return rules(c.verify(cubin));
}

}  // namespace xtrace::instrument::test
