// A program with a fake driver and a fake CUPTI (fake/), recorded through `xtrace record`.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "capture/bundle/bundle_reader.h"

namespace xtrace::inject {

namespace fs = std::filesystem;
using bundle::BundleReader;
using bundle::LaunchRecord;
using bundle::LaunchStatus;
using bundle::Region;
using bundle::RegionKind;
using testing::HasSubstr;

struct Recording {
  int status = 0;        // of xtrace; 128 + signal when it was killed
  std::string out, err;  // of xtrace and the program together, as a user sees them
  fs::path bundle;
  std::unique_ptr<BundleReader> reader;  // null when there is no bundle
  const std::vector<LaunchRecord>& launches() const { return reader->launches(); }
};

inline std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Record : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/xtrace-inject-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  pid_t start(std::vector<std::string> command) {
    const pid_t child = fork();
    if (child != 0) return child;
    if (!freopen((directory_ / "out").c_str(), "w", stdout) ||
        !freopen((directory_ / "err").c_str(), "w", stderr))
      _exit(99);
    setenv("LD_LIBRARY_PATH", XTRACE_FAKE_DIR, 1);
    setenv("TMPDIR", directory_.c_str(), 1);
    unsetenv("CUDA_INJECTION64_PATH");
    for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
    if (largest_file_ != 0) {
      signal(SIGXFSZ, SIG_IGN);  // inherited: a write fails as on a full disk
      const rlimit limit{largest_file_, largest_file_};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::vector<char*> argv;
    for (std::string& a : command) argv.push_back(a.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(98);
  }
  Recording finish(pid_t child) {
    Recording run;
    int status = 0;
    waitpid(child, &status, 0);
    run.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    run.out = text_of(directory_ / "out");
    run.err = text_of(directory_ / "err");
    run.bundle = directory_ / "run.xtr";
    if (auto reader = BundleReader::open(run.bundle)) run.reader = std::move(*reader);
    return run;
  }
  std::vector<std::string> command(const std::string& scenario, const std::vector<std::string>& options) {
    std::vector<std::string> c = {XTRACE_PROGRAM, "record",
                                  "-o",           (directory_ / "run.xtr").string(),
                                  "--cupti",      XTRACE_FAKE_DIR "/libcupti.so.13"};
    c.insert(c.end(), options.begin(), options.end());
    c.insert(c.end(), {"--", XTRACE_FAKE_APP, scenario});
    return c;
  }
  Recording record(const std::string& scenario, const std::vector<std::string>& options = {}) {
    return finish(start(command(scenario, options)));
  }

  fs::path directory_;
  std::vector<std::pair<std::string, std::string>> environment_;
  uint64_t largest_file_ = 0;  // 0 = no limit
};

inline std::vector<float> floats_of(const Recording& run, const std::vector<Hash128>& chunks, uint64_t size) {
  const auto bytes = run.reader->memory(chunks, size);
  EXPECT_TRUE(bytes) << (bytes ? "" : bytes.error().to_string());
  std::vector<float> out(size / 4);
  if (bytes) std::memcpy(out.data(), bytes->data(), out.size() * 4);
  return out;
}

}  // namespace xtrace::inject
