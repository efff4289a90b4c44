#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "capture/bundle/chunk_store.h"
#include "capture/bundle/framing.h"
#include "capture/bundle/launch_check.h"
#include "capture/bundle/signals_blocked.h"

namespace xtrace::bundle {
namespace {

// Compression is many times slower than a device copy, so a deeper queue would not help: it only holds more
// memory.
size_t in_flight_limit(unsigned threads) { return std::max<size_t>(16, size_t{4} * threads); }

bool all_zero(ByteView bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

ByteView chunk_at(ByteView data, uint64_t index) {
  const uint64_t offset = index * chunk_bytes;
  return data.subspan(offset, std::min<uint64_t>(chunk_bytes, data.size() - offset));
}

}  // namespace

// One put() whose chunks are hashed by the caller and any idle worker together.
struct ChunkStoreWriter::HashJob {
  ByteView data;
  Hash128 zero_chunk;
  std::vector<Hash128> hashes;
  std::atomic<uint64_t> next{0};
  unsigned helpers = 0;  // workers inside run(); guarded by mutex_

  void run() {
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < hashes.size();) {
      const ByteView chunk = chunk_at(data, i);
      hashes[i] = chunk.size() == chunk_bytes && all_zero(chunk) ? zero_chunk : hash128(chunk);
    }
  }
};

ChunkStoreWriter::ChunkStoreWriter(Fd fd, std::filesystem::path path, unsigned threads, int level)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      level_(level),
      max_in_flight_(in_flight_limit(threads)),
      zero_chunk_(hash128(Bytes(chunk_bytes))) {
  free_buffers_.reserve(max_in_flight_);  // so that giving a buffer back can not throw in a worker
}

Result<std::unique_ptr<ChunkStoreWriter>> ChunkStoreWriter::create(const std::filesystem::path& pack,
                                                                   unsigned threads, int zstd_level) {
  XT_TRY(Fd fd, create_file(pack));
  threads = std::max(threads, 1u);
  std::unique_ptr<ChunkStoreWriter> store(new ChunkStoreWriter(std::move(fd), pack, threads, zstd_level));
  XT_TRY_STATUS(append_all(store->fd_, std::as_bytes(std::span(pack_magic)), 0, pack));
  store->pack_bytes_ = magic_bytes;
  store->start_workers(threads);
  return store;
}

void ChunkStoreWriter::start_workers(unsigned threads) {
  const SignalsBlocked blocked;
  for (unsigned i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ChunkStoreWriter::~ChunkStoreWriter() { stop(); }

void ChunkStoreWriter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& t : workers_) t.join();
  workers_.clear();
}

void ChunkStoreWriter::abandon_threads() {
  for (std::thread& t : workers_) t.detach();
  workers_.clear();
}

Status ChunkStoreWriter::failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::make_unexpected(*failure_);
  return {};
}

uint64_t ChunkStoreWriter::chunk_count() const {
  const std::lock_guard lock(mutex_);
  return written_.size();
}

void ChunkStoreWriter::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  progress_.notify_all();
}

Result<std::vector<Hash128>> ChunkStoreWriter::put(ByteView data) {
  XT_TRY(std::vector<Hash128> hashes, hash_all(data));
  for (uint64_t i = 0; i < hashes.size(); ++i) XT_TRY_STATUS(put_chunk(hashes[i], chunk_at(data, i)));
  raw_bytes_.fetch_add(data.size(), std::memory_order_relaxed);
  return hashes;
}

Result<std::vector<Hash128>> ChunkStoreWriter::hash_all(ByteView data) {
  HashJob job;
  job.data = data;
  job.zero_chunk = zero_chunk_;
  job.hashes.resize(chunks_of(data.size()));
  // One core hashes slower than a device copies; small images are not worth waking anybody.
  const bool shared = job.hashes.size() >= 16;
  if (shared) {
    const std::lock_guard lock(mutex_);
    hash_queue_.push_back(&job);
    work_ready_.notify_all();
  }
  job.run();
  if (shared) {
    std::unique_lock lock(mutex_);
    std::erase(hash_queue_, &job);
    progress_.wait(lock, [&] { return job.helpers == 0; });
  }
  return std::move(job.hashes);
}

Status ChunkStoreWriter::put_chunk(const Hash128& hash, ByteView chunk) {
  Bytes buffer;
  {
    std::unique_lock lock(mutex_);
    if (failure_) return tl::make_unexpected(*failure_);
    if (!written_.emplace(hash, false).second) return {};
    progress_.wait(lock, [&] { return in_flight_ < max_in_flight_ || failure_; });
    if (failure_) return tl::make_unexpected(*failure_);
    ++in_flight_;
    if (!free_buffers_.empty()) {
      buffer = std::move(free_buffers_.back());
      free_buffers_.pop_back();
    }
  }
  try {
    buffer.assign(chunk.begin(), chunk.end());
    const std::lock_guard lock(mutex_);
    queue_.push_back({hash, std::move(buffer)});
  } catch (const std::bad_alloc&) {
    fail({ErrorKind::environment, "out of memory for a chunk of recorded memory", {}, {}});
    const std::lock_guard lock(mutex_);
    --in_flight_;
    return tl::make_unexpected(*failure_);
  }
  work_ready_.notify_one();
  return {};
}

void ChunkStoreWriter::work() {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  Bytes frame;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ready_.wait(lock, [&] { return stopping_ || !queue_.empty() || !hash_queue_.empty(); });
    if (!hash_queue_.empty()) {
      HashJob* job = hash_queue_.back();
      ++job->helpers;
      lock.unlock();
      job->run();
      lock.lock();
      // Its chunks are all taken: nobody else need look at it.
      std::erase(hash_queue_, job);
      --job->helpers;
      progress_.notify_all();
      continue;
    }
    if (queue_.empty()) return;  // stopping, and everything is done
    Job job = std::move(queue_.front());
    queue_.pop_front();
    if (!failure_) {
      lock.unlock();
      const Status stored = store(job, context.get(), frame);
      if (!stored) fail(stored.error());
      lock.lock();
      if (stored) written_[job.hash] = true;
    }
    --in_flight_;
    free_buffers_.push_back(std::move(job.data));
    progress_.notify_all();
  }
}

Status ChunkStoreWriter::store(const Job& job, void* context, Bytes& frame) {
  try {
    if (context == nullptr) return environment("out of memory for a compression context");
    const size_t bound = ZSTD_compressBound(job.data.size());
    frame.resize(sizeof(Header) + bound);
    const size_t n = ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(context), frame.data() + sizeof(Header), bound,
                                       job.data.data(), job.data.size(), level_);
    if (ZSTD_isError(n)) return internal("zstd can not compress a chunk: {}", ZSTD_getErrorName(n));
    frame.resize(sizeof(Header) + n);
    write_at(
        frame, 0,
        make_header(frame_tag, static_cast<uint32_t>(job.data.size()), static_cast<uint32_t>(n), job.hash));
    return append_frame(frame);
  } catch (const std::exception& e) {
    return environment("can not store a chunk: {}", e.what());
  }
}

Status ChunkStoreWriter::append_frame(const Bytes& frame) {
  const std::lock_guard file_lock(file_mutex_);
  XT_TRY_STATUS(failure());  // another worker may have torn the tail meanwhile
  const uint64_t end = pack_bytes_.load(std::memory_order_relaxed);
  Status appended = append_all(fd_, frame, end, path_);
  if (!appended) {
    fail(appended.error());  // inside file_mutex_: nobody may append behind a torn frame
    return appended;
  }
  pack_bytes_.store(end + frame.size(), std::memory_order_relaxed);
  return {};
}

void ChunkStoreWriter::give_up(const Error& why, uint64_t bytes) {
  const std::lock_guard file_lock(file_mutex_);
  fail(why);  // inside file_mutex_: nobody appends after this
  // Best effort: frames that nothing refers to are harmless.
  if (cut_back(fd_, bytes, path_)) pack_bytes_.store(bytes, std::memory_order_relaxed);
}

Status ChunkStoreWriter::wait_written(const std::vector<Hash128>& hashes) {
  std::unique_lock lock(mutex_);
  for (const Hash128& hash : hashes) {
    const auto it = written_.find(hash);
    if (it == written_.end()) return internal("chunk {} was never stored", hash.hex());
    const bool& written = it->second;  // references survive a rehash
    progress_.wait(lock, [&] { return written || failure_; });
    if (failure_) return tl::make_unexpected(*failure_);
  }
  return {};
}

Status ChunkStoreWriter::close() {
  stop();
  return failure();
}

}  // namespace xtrace::bundle
