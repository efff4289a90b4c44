#include "capture/bundle/bundle_writer.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <unordered_map>

#include "base/file.h"
#include "capture/bundle/chunk_store.h"
#include "capture/bundle/framing.h"
#include "capture/bundle/launch_check.h"
#include "capture/bundle/messages.h"

namespace xtrace::bundle {
namespace fs = std::filesystem;
namespace {

constexpr mode_t directory_mode = 0700;  // a recording holds the application's data

// Nothing thrown by the standard library or a library below may reach the application.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return environment("out of memory while recording");
  } catch (const std::exception& e) {
    return environment("recording failed: {}", e.what());
  }
}

bool is_manifest(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return false;
  const Result<Bytes> file = read_file(path);
  return file && manifest_message(*file).has_value();
}

bool is_bundle(const fs::path& directory) {
  return is_manifest(directory / incomplete_name) || is_manifest(directory / manifest_name);
}

Status make_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), directory_mode) == 0) return {};
  const int error = errno;
  if (error != EEXIST) {
    auto e = environment("can not create the bundle {}: {}", directory.string(), errno_text(error));
    if (error == ENOENT) return with_hint(std::move(e), "create its parent directory first");
    return e;
  }
  std::error_code ec;
  if (!fs::is_directory(directory, ec))
    return with_hint(bad_input("{} exists and is not a directory", directory.string()),
                     "choose another name");
  return {};
}

Status remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return environment("can not remove {}: {}", path.string(), errno_text(errno));
}

// A writer holds this lock on the pack for as long as it lives; the kernel drops it when the process dies.
Status refuse_live_writer(const fs::path& directory) {
  std::error_code ec;
  if (!fs::exists(directory / pack_name, ec)) return {};
  XT_TRY(const Fd pack, open_for_reading(directory / pack_name));
  if (::flock(pack.get(), LOCK_EX | LOCK_NB) == 0) return {};
  return with_hint(environment("{} is being written by another process", directory.string()),
                   "choose another bundle name, or wait until that process ends");
}

// The directory stays recognisable as a bundle at every moment: a manifest of one kind or the other is always
// there.
Status clear_bundle(const fs::path& directory) {
  XT_TRY_STATUS(refuse_live_writer(directory));
  XT_TRY_STATUS(remove_file(directory / launches_name));
  return remove_file(directory / pack_name);
}

Status prepare_directory(const fs::path& directory, bool overwrite) {
  XT_TRY_STATUS(make_directory(directory));
  std::error_code ec;
  const bool empty = fs::is_empty(directory, ec);
  if (ec) return environment("can not list {}: {}", directory.string(), ec.message());
  if (empty) return {};
  if (!is_bundle(directory))
    return with_hint(bad_input("{} exists and is not a bundle", directory.string()),
                     "choose another name: only a bundle or an empty directory is written to");
  if (!overwrite)
    return with_hint(bad_input("the bundle {} exists", directory.string()),
                     "choose another name, or allow it to be overwritten");
  return clear_bundle(directory);
}

}  // namespace

struct BundleWriter::Impl {
  fs::path directory;
  Environment environment;
  pid_t owner = ::getpid();

  std::unique_ptr<ChunkStoreWriter> chunks;
  Fd launches, pack_lock;

  std::mutex code_mutex;
  std::unordered_map<Hash128, StoredCode> codes;

  uint64_t launches_bytes = 0, launch_count = 0;  // touched by add_launch, give_up and finish only
  uint64_t pack_needed = 0;  // the finished launches refer to nothing behind it
  bool finished = false;
  std::optional<Error> failure;  // of the files other than the pack

  Status usable() const {
    if (::getpid() != owner) return internal("a forked child used the bundle of its parent");
    if (finished) return internal("the bundle {} is already finished", directory.string());
    if (failure) return tl::make_unexpected(*failure);
    return {};
  }

  Status start(const WriterOptions& options);
  Result<StoredCode> code_of(const LaunchRecord& launch);
  Status append(ByteView record);
  Status add_launch(const LaunchRecord& launch);
  Status give_up(const LaunchRecord& skipped);
  Status finish(BundleInfo info);
};

Status BundleWriter::Impl::start(const WriterOptions& options) {
  XT_TRY_STATUS(prepare_directory(directory, options.overwrite));
  BundleInfo info;
  info.environment = environment;
  XT_TRY(const Bytes message, encode_manifest(info, {}));
  XT_TRY(const Bytes file, manifest_file(message));
  XT_TRY_STATUS(replace_file(directory / incomplete_name, file));
  XT_TRY_STATUS(remove_file(directory / manifest_name));
  XT_TRY(chunks,
         ChunkStoreWriter::create(directory / pack_name, options.compression_threads, options.zstd_level));
  XT_TRY(pack_lock, open_for_reading(directory / pack_name));
  if (::flock(pack_lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return xtrace::environment("{} is being written by another process", directory.string());
  XT_TRY(launches, create_file(directory / launches_name));
  XT_TRY_STATUS(append_all(launches, std::as_bytes(std::span(launches_magic)), 0, directory / launches_name));
  launches_bytes = magic_bytes;
  return {};
}

Result<StoredCode> BundleWriter::Impl::code_of(const LaunchRecord& launch) {
  if (launch.code == Hash128{}) return StoredCode{};
  const std::lock_guard lock(code_mutex);
  const auto it = codes.find(launch.code);
  if (it == codes.end()) return internal("code {} was never stored", launch.code.hex());
  return it->second;
}

Status BundleWriter::Impl::append(ByteView record) {
  Status s = append_all(launches, record, launches_bytes, directory / launches_name);
  if (!s) {
    failure = s.error();  // a torn record may lie at the end: nothing may follow it
    return s;
  }
  launches_bytes += record.size();
  ++launch_count;
  return {};
}

Status BundleWriter::Impl::add_launch(const LaunchRecord& launch) {
  XT_TRY_STATUS(usable());
  if (Status s = check_launch(launch); !s)
    return internal("launch {}: {}", launch.ordinal, s.error().message);
  XT_TRY_IN(const StoredCode code, code_of(launch), "in launch {}", launch.ordinal);
  XT_TRY_STATUS(chunks->wait_written(code.chunks));
  for (const Region& region : launch.regions) {
    XT_TRY_STATUS(chunks->wait_written(region.before));
    XT_TRY_STATUS(chunks->wait_written(region.after));
  }
  XT_TRY(const Bytes message, encode_launch(launch, code));
  XT_TRY(const Bytes record, frame_message(message));
  XT_TRY_STATUS(append(record));
  pack_needed = chunks->pack_bytes();
  return {};
}

Status BundleWriter::Impl::give_up(const LaunchRecord& skipped) {
  if (::getpid() != owner) return internal("a forked child used the bundle of its parent");
  if (finished) return internal("the bundle {} is already finished", directory.string());
  if (skipped.status != LaunchStatus::skipped) return internal("give_up takes a skipped launch");
  if (Status s = check_launch(skipped); !s)
    return internal("launch {}: {}", skipped.ordinal, s.error().message);
  const Error why = failure ? *failure : Error{ErrorKind::environment, "the bundle was given up", {}, {}};
  chunks->give_up(why, pack_needed);
  XT_TRY(const Bytes message, encode_launch(skipped, {}));
  XT_TRY(const Bytes record, frame_message(message));
  XT_TRY_STATUS(cut_back(launches, launches_bytes, directory / launches_name));
  const Status appended = append(record);
  if (!failure) failure = why;
  return appended;
}

Status BundleWriter::Impl::finish(BundleInfo info) {
  XT_TRY_STATUS(usable());
  finished = true;
  XT_TRY_STATUS(chunks->close());
  info.environment = environment;
  XT_TRY(const Bytes message,
         encode_manifest(info, {launch_count, launches_bytes, chunks->pack_bytes(), chunks->chunk_count()}));
  XT_TRY(const Bytes file, manifest_file(message));
  XT_TRY_STATUS(replace_file(directory / manifest_name, file));
  return remove_file(directory / incomplete_name);
}

BundleWriter::BundleWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

BundleWriter::~BundleWriter() {
  if (impl_->chunks && ::getpid() != impl_->owner) {
    impl_->chunks->abandon_threads();
    impl_.release();  // its locks may be held by threads that do not exist here
  }
}

Result<std::unique_ptr<BundleWriter>> BundleWriter::create(const fs::path& directory, const Environment& env,
                                                           const WriterOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<BundleWriter>> {
    auto impl = std::make_unique<Impl>();
    impl->directory = directory;
    impl->environment = env;
    XT_TRY_STATUS(impl->start(options));
    return std::unique_ptr<BundleWriter>(new BundleWriter(std::move(impl)));
  });
}

Result<std::vector<Hash128>> BundleWriter::put_memory(ByteView data) {
  return guarded([&]() -> Result<std::vector<Hash128>> {
    XT_TRY_STATUS(impl_->usable());
    return impl_->chunks->put(data);
  });
}

Result<Hash128> BundleWriter::put_code(ByteView cubin) {
  return guarded([&]() -> Result<Hash128> {
    XT_TRY_STATUS(impl_->usable());
    if (cubin.empty()) return bad_input("a cubin of 0 bytes can not be stored");
    const Hash128 hash = hash128(cubin);
    XT_TRY(std::vector<Hash128> chunks, impl_->chunks->put(cubin));
    const std::lock_guard lock(impl_->code_mutex);
    impl_->codes.try_emplace(hash, StoredCode{cubin.size(), std::move(chunks)});
    return hash;
  });
}

Status BundleWriter::add_launch(const LaunchRecord& launch) {
  return guarded([&] { return impl_->add_launch(launch); });
}

Status BundleWriter::give_up(const LaunchRecord& skipped) {
  return guarded([&] { return impl_->give_up(skipped); });
}

Status BundleWriter::finish(const BundleInfo& info) {
  return guarded([&] { return impl_->finish(info); });
}

uint64_t BundleWriter::stored_bytes() const { return impl_->chunks->pack_bytes(); }
uint64_t BundleWriter::raw_bytes() const { return impl_->chunks->raw_bytes(); }

}  // namespace xtrace::bundle
