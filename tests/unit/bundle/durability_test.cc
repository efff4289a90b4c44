// A recorder that is killed, runs out of disk or forks.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <functional>

#include "tests/unit/bundle/sample.h"

namespace xtrace::bundle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uint64_t image_bytes = 3 * chunk_bytes / 2;

// Half of the image is the same in every launch.
Bytes image(uint64_t ordinal) {
  Bytes bytes = noise(image_bytes, 1);
  const Bytes own = noise(image_bytes / 2, 100 + ordinal);
  std::copy(own.begin(), own.end(), bytes.begin());
  return bytes;
}

Status add(BundleWriter& writer, uint64_t ordinal) {
  XT_TRY(const Hash128 code, writer.put_code(noise(100, ordinal)));
  LaunchRecord l = sample_launch(ordinal, code);
  Region r;
  r.address = {0x100000};
  r.size = image_bytes;
  XT_TRY(r.before, writer.put_memory(image(ordinal)));
  XT_TRY(r.after, writer.put_memory(image(ordinal + 1)));
  l.regions = {r};
  return writer.add_launch(l);
}

void expect_intact(const BundleReader& reader) {
  for (uint64_t i = 0; i < reader.launches().size(); ++i) {
    SCOPED_TRACE(i);
    const LaunchRecord& l = reader.launches()[i];
    EXPECT_EQ(l.ordinal, i);
    EXPECT_EQ(must(reader.code(l.code)), noise(100, i));
    EXPECT_EQ(must(reader.memory(l.regions[0].before, image_bytes)), image(i));
    EXPECT_EQ(must(reader.memory(l.regions[0].after, image_bytes)), image(i + 1));
  }
}

// Runs `body` in a child; its result is the exit status.
pid_t spawn(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}

int exit_status(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Durability, KilledAtAnyMomentEveryFinishedLaunchIsThere) {
  // The child says each ordinal once add_launch has returned; the parent kills it some microseconds later.
  for (const useconds_t delay : {0, 300, 1000, 3000, 7000}) {
    SCOPED_TRACE(delay);
    const TempDir dir;
    int pipe_fds[2];
    ASSERT_EQ(::pipe(pipe_fds), 0);
    const pid_t child = spawn([&] {
      auto writer = BundleWriter::create(dir / "b", sample_environment(), {});
      if (!writer) return 1;
      for (uint64_t i = 0;; ++i) {
        if (!add(**writer, i)) return 2;
        if (::write(pipe_fds[1], &i, sizeof i) != sizeof i) return 3;
      }
    });
    uint64_t acknowledged = 0;
    while (acknowledged < 3) ASSERT_EQ(::read(pipe_fds[0], &acknowledged, sizeof acknowledged), 8);
    ::usleep(delay);
    ::kill(child, SIGKILL);
    EXPECT_EQ(exit_status(child), 1000 + SIGKILL);
    ::close(pipe_fds[1]);
    while (::read(pipe_fds[0], &acknowledged, sizeof acknowledged) == 8) {
    }
    ::close(pipe_fds[0]);

    auto reader = must(BundleReader::open(dir / "b"));
    EXPECT_EQ(reader->info().state, BundleState::incomplete);
    EXPECT_EQ(reader->info().environment.gpu_name, "NVIDIA H200");
    EXPECT_GE(reader->launches().size(), acknowledged + 1);
    expect_intact(*reader);
  }
}

// Limits the size of any file that the child writes, which ends a write as a full disk does: short, then an
// error.
void limit_files(uint64_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

// What a recorder adds when the bundle can take no more.
LaunchRecord last_launch(uint64_t ordinal, const std::string& why) {
  LaunchRecord l;
  l.ordinal = ordinal;
  l.kernel = "last";
  l.status = LaunchStatus::skipped;
  l.skip_reason = why;
  return l;
}

enum : int {
  ok = 0,
  no_writer = 1,
  no_error = 2,
  wrong_error = 3,
  finish_succeeded = 4,
  wrong_finish_error = 5,
  no_last_launch = 6,
  nothing_to_give_back = 7,
  nothing_given_back = 8
};

TEST(Durability, AFullDiskUnderThePackIsAnErrorAndLeavesAReadableBundle) {
  const TempDir dir;
  const pid_t child = spawn([&]() -> int {
    limit_files(8 * chunk_bytes + 12345);
    auto writer = BundleWriter::create(dir / "b", sample_environment(), {});
    if (!writer) return no_writer;
    Status s;
    for (uint64_t i = 0; i < 100 && s; ++i) s = add(**writer, i);
    if (s) return no_error;
    if (s.error().kind != ErrorKind::environment || s.error().hint.empty()) return wrong_error;
    if (s.error().message.find("can not write") == std::string::npos) return wrong_error;
    const Status finished = (*writer)->finish({});
    if (finished) return finish_succeeded;
    return finished.error().message == s.error().message ? ok : wrong_finish_error;
  });
  ASSERT_EQ(exit_status(child), ok);
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::incomplete);
  EXPECT_GE(reader->launches().size(), 3u);
  EXPECT_LT(reader->launches().size(), 9u);
  expect_intact(*reader);
  EXPECT_FALSE(fs::exists(dir / "b" / "manifest"));
}

TEST(Durability, GivingUpGivesRoomBackAndSaysWhy) {
  const TempDir dir;
  const pid_t child = spawn([&]() -> int {
    limit_files(8 * chunk_bytes + 12345);
    auto writer = BundleWriter::create(dir / "b", sample_environment(), {});
    if (!writer) return no_writer;
    for (uint64_t i = 0; i < 3; ++i)
      if (!add(**writer, i)) return wrong_error;
    const uint64_t needed = (*writer)->stored_bytes();
    // Of no launch that will be finished; the error comes from this call or from the next.
    [[maybe_unused]] const auto memory = (*writer)->put_memory(noise(8 * chunk_bytes, 7));
    const Status s = add(**writer, 3);
    if (s) return no_error;
    if ((*writer)->stored_bytes() == needed) return nothing_to_give_back;
    if (!(*writer)->give_up(last_launch(1000, s.error().message))) return no_last_launch;
    if ((*writer)->stored_bytes() != needed) return nothing_given_back;
    return add(**writer, 1001) || (*writer)->finish({}) ? finish_succeeded : ok;
  });
  ASSERT_EQ(exit_status(child), ok);
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::incomplete);
  ASSERT_EQ(reader->launches().size(), 4u);
  const LaunchRecord last = reader->launches().back();
  EXPECT_EQ(last.ordinal, 1000u);
  EXPECT_EQ(last.status, LaunchStatus::skipped);
  EXPECT_THAT(last.skip_reason, HasSubstr("can not write"));
  EXPECT_LT(fs::file_size(dir / "b" / "pack"), 5 * chunk_bytes);  // three launches: 4.5 chunks
  EXPECT_EQ(must(reader->memory(reader->launches()[2].regions[0].after, image_bytes)), image(3));
}

TEST(Durability, AFullDiskUnderLaunchesIsAnErrorAndLeavesAReadableBundle) {
  const TempDir dir;
  const pid_t child = spawn([&]() -> int {
    limit_files(50'000);
    auto writer = BundleWriter::create(dir / "b", sample_environment(), {});
    if (!writer) return no_writer;
    const auto code = (*writer)->put_code(noise(10, 1));
    Status s;
    for (uint64_t i = 0; i < 100 && s; ++i) {
      LaunchRecord l = sample_launch(i, *code);
      l.param_block = noise(4000, i);
      s = (*writer)->add_launch(l);
    }
    if (s) return no_error;
    if ((*writer)->add_launch(sample_launch(1000, *code)))
      return wrong_error;  // nothing may follow a torn record
    return (*writer)->finish({}) ? finish_succeeded : ok;
  });
  ASSERT_EQ(exit_status(child), ok);
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::incomplete);
  ASSERT_EQ(reader->launches().size(), 11u);  // 11 records of 4.4 kB fit 50 kB
  for (uint64_t i = 0; i < 11; ++i) EXPECT_EQ(reader->launches()[i].param_block, noise(4000, i));
}

TEST(Durability, AFullDiskUnderTheManifestLeavesTheBundleIncomplete) {
  const TempDir dir;
  const pid_t child = spawn([&]() -> int {
    auto writer = BundleWriter::create(dir / "b", sample_environment(), {});
    if (!writer) return no_writer;
    if (!add(**writer, 0)) return wrong_error;
    limit_files(100);
    return (*writer)->finish({}) ? finish_succeeded : ok;
  });
  ASSERT_EQ(exit_status(child), ok);
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::incomplete);
  EXPECT_EQ(reader->launches().size(), 1u);
  expect_intact(*reader);
  EXPECT_FALSE(fs::exists(dir / "b" / "manifest.tmp"));
}

TEST(Durability, AForkedChildIsRefusedAndCanExit) {
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  must(add(*writer, 0));
  const pid_t child = spawn([&]() -> int {
    if (writer->put_memory(noise(10, 1)) || writer->finish({})) return 1;
    writer.reset();  // must neither wait for threads that are not there nor touch the files
    return 0;
  });
  EXPECT_EQ(exit_status(child), 0);
  must(add(*writer, 1));
  must(writer->finish({}));
  auto reader = must(BundleReader::open(dir / "b"));
  EXPECT_EQ(reader->info().state, BundleState::complete);
  EXPECT_EQ(reader->launches().size(), 2u);
  expect_intact(*reader);
}

TEST(Durability, WorkersLeaveTheSignalsToTheApplication) {
  // A signal sent to the process while the main thread blocks it must stay pending: no worker may take it.
  const TempDir dir;
  auto writer = new_writer(dir / "b");
  sigset_t set, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  ::kill(::getpid(), SIGUSR2);
  must(writer->finish({}));
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGUSR2), 1);
  int taken = 0;
  EXPECT_EQ(sigwait(&set, &taken), 0);
  EXPECT_EQ(taken, SIGUSR2);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace
}  // namespace xtrace::bundle
