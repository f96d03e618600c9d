// A pool of threads for work of microseconds: the products of one decoding step, a hundred of them one after another.
//
// A job is cut into chunks, and every thread takes the next one from a counter. The calling thread works too, and at
// the end waits only for chunks that another thread has begun, never for a thread. So a worker that the system does
// not run at the moment, because other programs are busy, costs nothing: its chunks are done by others. OpenMP's
// barriers wait for every thread, and a decoding step beside one busy program took four times as long with them.

#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace aded {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pool {
 public:
  // Calls work(chunk) for every chunk in [0, chunks), in up to `threads` threads; returns when all are done. A call from
  // a second thread at the same time, and one with more chunks than `next_` can count, does its work alone.
  template <class Work>
  void run(uint32_t chunks, const Work& work) {
    std::unique_lock<std::mutex> only(busy_, std::try_to_lock);
    if (!only || threads_ == 1 || chunks < 2 || chunks > 0xFFFF) {
      for (uint32_t chunk = 0; chunk < chunks; chunk++) work(chunk);
      return;
    }
    call_ = [](const void* work, uint32_t chunk) { (*static_cast<const Work*>(work))(chunk); };
    work_ = &work;
    done_ = 0;
    const uint64_t job = ((next_ >> 32) + 1) << 32 | uint64_t(chunks) << 16;
    next_ = job;
    if (asleep_) next_.notify_all();
    while (take()) {
    }
    for (int waited = 0; done_ < chunks; waited++) waited < PATIENCE ? pause() : void(sched_yield());
  }

  // How many threads work, the calling one included.
  void use(int threads) {
    std::lock_guard<std::mutex> only(busy_);
    for (; workers_ < threads - 1; workers_++) std::thread([this, number = workers_] { serve(number); }).detach();
    threads_ = threads;
  }
  int threads() const { return threads_; }

 private:
  static constexpr int PATIENCE = 2000, IDLE = 20000;  // pauses: before the caller yields; before a worker sleeps

  // Takes a chunk of the current job and does it; false where none is left.
  bool take() {
    uint64_t next = next_;
    do {
      if ((next & 0xFFFF) >= (next >> 16 & 0xFFFF)) return false;
    } while (!next_.compare_exchange_weak(next, next + 1));
    // Until this chunk is counted as done, the job cannot end, so its fields stay as they are.
    call_(work_, next & 0xFFFF);
    done_++;
    return true;
  }

  void serve(int number) {
    for (int idle = 0;; idle++) {
      const uint64_t seen = next_;
      if (number < threads_ - 1 && take()) {
        idle = 0;
      } else if (idle < IDLE) {
        pause();
      } else {
        asleep_++;
        next_.wait(seen);
        asleep_--;
        idle = 0;
      }
    }
  }

  // The job's number, its chunks and the next chunk in one word: a worker that comes late can never take a chunk of
  // one job for a chunk of another.
  alignas(64) std::atomic<uint64_t> next_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<int> asleep_{0};
  std::atomic<int> threads_{1};
  int workers_ = 0;
  std::mutex busy_;
  void (*call_)(const void*, uint32_t) = nullptr;
  const void* work_ = nullptr;
};

// The process's one pool. Never destroyed, since its threads run until the process ends.
inline Pool& pool() {
  static Pool& only = *new Pool;
  return only;
}

}  // namespace aded
