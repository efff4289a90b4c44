#include "capture/inject/driver_calls.h"

#include <cupti.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace xtrace::inject {
namespace {

// The installed header, whatever its version: XTRACE_CUPTI_CBID_HEADER.
std::map<std::string, uint32_t> header_names() {
  std::ifstream in(XTRACE_CUPTI_CBID_HEADER);
  const std::regex line(R"(CUPTI_DRIVER_TRACE_CBID_(\w+)\s*=\s*(\d+))");
  std::map<std::string, uint32_t> out;
  for (std::string text; std::getline(in, text);)
    if (std::smatch m; std::regex_search(text, m, line)) out[m[1]] = static_cast<uint32_t>(std::stoul(m[2]));
  return out;
}

TEST(DriverCalls, EveryLaunchAllocationAndMappingOfTheInstalledHeaderIsClassified) {
  const auto names = header_names();
  ASSERT_GT(names.size(), 600u) << XTRACE_CUPTI_CBID_HEADER;
  std::set<std::string> listed;
  for (const DriverCall& call : driver_calls()) listed.emplace(call.name);
  for (const auto& [name, cbid] : names)
    EXPECT_TRUE(!must_be_listed(name) || listed.contains(name))
        << name << " is new: add it to driver_calls.cc";
}

TEST(DriverCalls, NumbersAreTheHeaders) {
  const auto names = header_names();
  std::set<uint32_t> seen;
  for (const DriverCall& call : driver_calls()) {
    ASSERT_TRUE(names.contains(std::string(call.name))) << call.name;
    EXPECT_EQ(names.at(std::string(call.name)), call.cbid) << call.name;
    EXPECT_TRUE(seen.insert(call.cbid).second) << call.name << " stands twice";
    EXPECT_EQ(call.cls == CallClass::ignored, !call.why.empty()) << call.name << ": ignored calls say why";
  }
}

TEST(DriverCalls, BothStreamFormsHaveTheSameClass) {
  std::map<std::string, CallClass> classes;
  for (const DriverCall& call : driver_calls()) classes.emplace(call.name, call.cls);
  for (const auto& [name, cls] : classes)
    if (name.ends_with("_ptsz")) {
      EXPECT_EQ(classes.at(name.substr(0, name.size() - 5)), cls) << name;
    }
}

TEST(DriverCalls, UnlistedNamesAreJudgedByTheirWords) {
  const std::pair<const char*, CallClass> cases[] = {
      {"cuLaunchKernelTomorrow", CallClass::launch_unknown},
      {"cuMemcpyHtoDAsync_v2_ptsz", CallClass::writes},
      {"cuMemsetD32_v2", CallClass::writes},
      {"cuStreamWriteValue64_v2", CallClass::writes},
      {"cuMemPrefetchAsync", CallClass::writes},
      {"cuGraphAddMemcpyNode", CallClass::ignored},
      {"cuGraphExecTomorrowNodeSetParams", CallClass::graph_set_other},
      {"cuCtxGetCurrent", CallClass::ignored},
      {"cuEventRecord", CallClass::ignored},
  };
  for (const auto& [name, cls] : cases) EXPECT_EQ(class_of_unlisted(name), cls) << name;
}

}  // namespace
}  // namespace xtrace::inject
