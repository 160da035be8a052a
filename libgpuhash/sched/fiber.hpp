// Fibers: one stack per tile, switched by hand where we know how (x86-64), through ucontext elsewhere.
//
// A fiber is never unwound: a run that is abandoned simply leaves its stacks as they are, and the next run starts each
// of them from the top again. So code on a fiber must not own memory across a scheduling point. Operations are
// trivially copyable and keep to this by nature.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace gpuhash::sim {

#if defined(__x86_64__)

struct context {
  void* sp = nullptr;
};

// Saves the callee-saved registers on the running stack and its pointer in *from, then resumes to.
__attribute__((naked, noinline)) inline void switch_stacks(void** /*from: rdi*/, void* /*to: rsi*/) {
  asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret");
}

inline void switch_context(context& from, context& to) { switch_stacks(&from.sp, to.sp); }

#else

struct context {
  ucontext_t state;
};

inline void switch_context(context& from, context& to) { swapcontext(&from.state, &to.state); }

#endif

class fiber {
 public:
  explicit fiber(size_t stack_bytes = 64 << 10) : bytes(stack_bytes) {}

  // The next switch to this fiber calls entry, which must not return.
  void restart(void (*entry)()) {
    if (!stack_) stack_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
#if defined(__x86_64__)
    uintptr_t top = (reinterpret_cast<uintptr_t>(stack_.get()) + bytes) & ~uintptr_t(15);
    void** sp = reinterpret_cast<void**>(top);
    *--sp = nullptr;  // where a return address would be: the ABI wants the stack 8 off a multiple of 16 at entry
    *--sp = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;  // the registers that switch_stacks pops
    here.sp = sp;
#else
    getcontext(&here.state);
    here.state.uc_stack.ss_sp = stack_.get();
    here.state.uc_stack.ss_size = bytes;
    here.state.uc_link = nullptr;
    makecontext(&here.state, entry, 0);
#endif
  }

  context here;
  const size_t bytes;

 private:
  std::unique_ptr<unsigned char[]> stack_;
};

}  // namespace gpuhash::sim
