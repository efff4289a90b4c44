// The pack: an append-only file of zstd frames, one a distinct chunk, each behind a Header (framing.h) with
// the hash and both sizes. Writer and reader are declared together because each is the other's specification.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "capture/bundle/file_io.h"

namespace xtrace::bundle {

// Stores each chunk once. Any thread may call put() and wait_written(). The first failure is kept: every
// later call returns it and nothing more is written, so that only the tail of the pack can be torn.
class ChunkStoreWriter {
 public:
  // Creates the pack and starts the workers, with every signal blocked in them: the application's handlers
  // never run on a thread it does not know.
  static Result<std::unique_ptr<ChunkStoreWriter>> create(const std::filesystem::path& pack, unsigned threads,
                                                          int zstd_level);
  ~ChunkStoreWriter();

  // Splits `data` into chunks and stores those that are new. Blocks while max_in_flight chunks wait: memory
  // is bounded.
  Result<std::vector<Hash128>> put(ByteView data);
  // Returns when each of `hashes` is in the file. Internal error for one that was never put.
  Status wait_written(const std::vector<Hash128>& hashes);
  // Returns when everything put so far is in the file, and ends the workers. No put() may run.
  Status close();
  // Ends all writing with `why`, unless it failed already, and gives back the room of what lies behind `bytes`.
  void give_up(const Error& why, uint64_t bytes);
  // After fork() the child has no workers: forgets them without waiting. Only the destructor may follow.
  void abandon_threads();
  // The first failure, if any.
  Status failure() const;

  uint64_t pack_bytes() const { return pack_bytes_.load(std::memory_order_relaxed); }
  uint64_t raw_bytes() const { return raw_bytes_.load(std::memory_order_relaxed); }
  uint64_t chunk_count() const;

 private:
  struct Job {
    Hash128 hash;
    Bytes data;
  };
  struct HashJob;

  ChunkStoreWriter(Fd fd, std::filesystem::path path, unsigned threads, int level);
  void start_workers(unsigned threads);
  void work();
  Status store(const Job& job, void* context, Bytes& frame);
  Status append_frame(const Bytes& frame);
  Result<std::vector<Hash128>> hash_all(ByteView data);
  Status put_chunk(const Hash128& hash, ByteView chunk);
  void fail(Error error);
  void stop();

  const Fd fd_;
  const std::filesystem::path path_;
  const int level_;
  const size_t max_in_flight_;
  const Hash128 zero_chunk_;

  mutable std::mutex mutex_;
  std::condition_variable work_ready_, progress_;
  std::unordered_map<Hash128, bool> written_;  // every chunk ever put; true once it is in the file
  std::deque<Job> queue_;  // oldest first: a launch that waits for its chunks is not overtaken for ever
  std::vector<HashJob*> hash_queue_;
  std::vector<Bytes> free_buffers_;
  size_t in_flight_ = 0;  // queued or being compressed
  bool stopping_ = false;
  std::optional<Error> failure_;
  std::vector<std::thread> workers_;

  std::mutex file_mutex_;  // appends; never taken inside mutex_
  std::atomic<uint64_t> pack_bytes_{0}, raw_bytes_{0};
};

// Reads a pack. The index is built by walking the headers; the walk ends at the first that is torn or
// damaged.
class ChunkStoreReader {
 public:
  static Result<std::unique_ptr<ChunkStoreReader>> open(const std::filesystem::path& pack);

  // Walks the pack once; later calls return at once. Any thread.
  void index() const;
  // After index(): why the walk ended before the end of the file, empty if it did not.
  const std::string& damage() const { return damage_; }
  bool contains(const Hash128& hash) const;
  uint64_t chunk_count() const;
  uint64_t pack_bytes() const { return pack_bytes_; }

  // Decompresses the chunks of `size` bytes into one buffer, each checked against its hash; several threads
  // when there are many.
  Result<Bytes> read(const std::vector<Hash128>& chunks, uint64_t size) const;

 private:
  struct Frame {
    uint64_t offset = 0;  // of the compressed bytes
    uint32_t raw_size = 0, stored_size = 0;
  };

  ChunkStoreReader(Fd fd, std::filesystem::path path, uint64_t bytes);
  void walk() const;
  Status read_chunk(const Hash128& hash, std::span<std::byte> out, void* context, Bytes& scratch) const;

  const Fd fd_;
  const std::filesystem::path path_;
  const uint64_t pack_bytes_;
  mutable std::once_flag once_;
  mutable std::unordered_map<Hash128, Frame> frames_;
  mutable std::string damage_;
};

}  // namespace xtrace::bundle
