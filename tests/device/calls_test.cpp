// The calls of CUDA that kit/cuda_device.cuh, kit/cuda_space.cuh and the launches of tile/cuda_mem.cuh make, over a
// fake CUDA: calls_test [new|old]. With an old driver there are none of the functions that are asked of the driver
// itself.
//
// Every call is noted with what it was given, one that is told to fails, and what has failed is left for cudaGetLastError()
// to tell, as the runtime leaves it to the next call of any user of the device.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "libgpuhash/kit/cuda_device.cuh"

namespace {

using std::string;

struct cuda {
  // What the tests say.
  std::map<string, int> fails;       // by function: this error
  std::map<string, int> devices_of;  // of properties: the compute capability, times ten
  int devices = 3, capability = 90, virtual_memory = 1;
  bool old = false;  // the driver
  std::set<string> missing;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  void (*in_pool_create)() = nullptr;

  // What there is.
  int device = 0, mode = cudaStreamCaptureModeGlobal, error = 0;
  std::vector<string> calls;
  std::map<void*, int> pool_device;  // of pools
  std::map<void*, uint64_t> kept;
  std::set<unsigned long long> handles;  // of memory that was created, and not released
  std::map<unsigned long long, size_t> mapped, reserved;
  int objects = 0;
} it;

[[gnu::format(printf, 1, 2)]] string text(const char* format, ...) {
  char line[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}
// A call of the runtime; what it answers.
int note(const char* function, const string& given) {
  it.calls.push_back(function + ("(" + given + ")"));
  const int e = it.fails.count(function) ? it.fails[function] : 0;
  if (e) it.error = e;
  return e;
}
int note_driver(const char* function, const string& given) {
  const int before = it.error, e = note(function, given);
  it.error = before;  // the driver leaves none
  return e;
}
#define NOTED(...) cudaError_t(note(__func__, text(__VA_ARGS__)))
#define NOTED_BY_DRIVER(...) note_driver(__func__, text(__VA_ARGS__))

long long number(const void* p) { return (long long)reinterpret_cast<uintptr_t>(p); }
void* handle(long long n) { return reinterpret_cast<void*>(n); }

}  // namespace

cudaError_t cudaGetLastError() { return cudaError_t(std::exchange(it.error, 0)); }
const char* cudaGetErrorString(cudaError_t e) {
  static char said[32];
  snprintf(said, sizeof said, "error %d", int(e));
  return said;
}
cudaError_t cudaGetDeviceCount(int* n) { return *n = it.devices, NOTED(" "); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {it.capability / 10, it.capability % 10, size_t(1600) + size_t(device)};
  return NOTED("%d", device);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  *value = which == cudaDevAttrComputeCapabilityMajor ? it.capability / 10 : int(which) * 100 + device;
  return NOTED("%d, %d", int(which), device);
}
cudaError_t cudaGetDevice(int* device) { return *device = it.device, NOTED(" "); }
cudaError_t cudaSetDevice(int device) {
  const cudaError_t e = NOTED("%d", device);
  if (!e) it.device = device;
  return e;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const cudaError_t e = NOTED("%d", int(*mode));
  if (!e) *mode = cudaStreamCaptureMode(std::exchange(it.mode, int(*mode)));
  return e;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* status, unsigned long long*,
                                     cudaGraph_t* graph, const void*,
#if CUDART_VERSION >= 13000
                                     const void*,
#endif
                                     size_t*) {
  *status = it.capture;
  *graph = cudaGraph_t(handle(77));
  return NOTED("%lld", number(s));
}
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* note_given, void (*gone)(void*), unsigned references,
                                 unsigned flags) {
  const cudaError_t e = NOTED("%lld, %d, %u, %u", number(note_given), gone != nullptr, references, flags);
  if (e) return e;
  ++it.objects;
  *object = cudaUserObject_t(handle(55));
  return e;
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned n, unsigned flags) {
  return NOTED("%lld, %lld, %u, %u", number(graph), number(object), n, flags);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* of) {
  const cudaError_t e = NOTED("%d, %d, %d", of->allocType, of->location.type, of->location.id);
  if (e) return e;
  *pool = cudaMemPool_t(handle(1000 + (long long)it.pool_device.size()));
  it.pool_device[*pool] = of->location.id;
  if (it.in_pool_create) std::exchange(it.in_pool_create, nullptr)();
  return e;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int which, void* value) {
  if (which == cudaMemPoolAttrReleaseThreshold) it.kept[pool] = *static_cast<uint64_t*>(value);
  return NOTED("%lld, %d", number(pool), which);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return NOTED("%lld", number(pool)); }
cudaError_t cudaMallocFromPoolAsync(void** p, size_t bytes, cudaMemPool_t pool, cudaStream_t s) {
  *p = handle(4096);
  return NOTED("%zu, %lld, %lld", bytes, number(pool), number(s));
}
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t s) {
  *p = handle(8192);
  return NOTED("%zu, %lld", bytes, number(s));
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) { return NOTED("%lld, %lld", number(p), number(s)); }
cudaError_t cudaMemsetAsync(void* p, int byte, size_t bytes, cudaStream_t s) {
  return NOTED("%lld, %d, %zu, %lld", number(p), byte, bytes, number(s));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, cudaStream_t s) {
  return NOTED("%lld, %lld, %zu, %d, %lld", number(to), number(from), bytes, kind, number(s));
}
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned flags) {
  *p = handle(512);
  return NOTED("%zu, %u", bytes, flags);
}
cudaError_t cudaFreeHost(void* p) { return NOTED("%lld", number(p)); }
cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long* id) { return *id = 300, NOTED("%lld", number(s)); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  *s = cudaStream_t(handle(9));
  return NOTED("%u", flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return NOTED("%lld", number(s)); }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return NOTED("%lld", number(s)); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  *e = cudaEvent_t(handle(8));
  return NOTED("%u", flags);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return NOTED("%lld", number(e)); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return NOTED("%lld, %lld", number(e), number(s)); }
cudaError_t cudaEventQuery(cudaEvent_t e) { return NOTED("%lld", number(e)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  return NOTED("%lld, %lld, %u", number(s), number(e), flags);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** at, size_t bytes, cudaStream_t s) {
  const bool one = blocks.y == 1 && blocks.z == 1 && threads.y == 1 && threads.z == 1;
  return NOTED("%d, %u, %u, %d, %d, %llu, %zu, %lld", kernel != nullptr, blocks.x, threads.x, one,
               *static_cast<int*>(at[0]), *static_cast<unsigned long long*>(at[1]), bytes, number(s));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* kernel, void** at) {
  const bool one = c->gridDim.y == 1 && c->gridDim.z == 1 && c->blockDim.y == 1 && c->blockDim.z == 1;
  const bool early = c->numAttrs == 1 && c->attrs->id == 6 && c->attrs->val.programmaticStreamSerializationAllowed;
  return NOTED("%d, %u, %u, %d, %d, %llu, %zu, %lld, %d", kernel != nullptr, c->gridDim.x, c->blockDim.x, one,
               *static_cast<int*>(at[0]), *static_cast<unsigned long long*>(at[1]), c->dynamicSmemBytes,
               number(c->stream), early);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void* kernel) {
  of->ptxVersion = it.capability, of->binaryVersion = 90;
  return NOTED("%d", kernel != nullptr);
}
cudaError_t cudaMemGetInfo(size_t* left, size_t* all) {
  *left = 7, *all = 1600 + size_t(it.device);
  return NOTED(" ");
}
cudaError_t cuda_func_set_attribute(const void* kernel, cudaFuncAttribute which, int value) {
  return NOTED("%d, %d, %d", kernel != nullptr, int(which), value);
}

CUresult cuCtxGetDevice(CUdevice* device) { return *device = it.device, NOTED_BY_DRIVER(" "); }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const CUresult e = NOTED_BY_DRIVER("%d", int(*mode));
  if (!e) *mode = CUstreamCaptureMode(std::exchange(it.mode, int(*mode)));
  return e;
}
CUresult cuStreamGetId(CUstream s, unsigned long long* id) { return *id = 300, NOTED_BY_DRIVER("%lld", number(s)); }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  *status = it.capture == cudaStreamCaptureStatusNone ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return NOTED_BY_DRIVER("%lld", number(s));
}
CUresult cuEventRecord(CUevent e, CUstream s) { return NOTED_BY_DRIVER("%lld, %lld", number(e), number(s)); }
CUresult cuMemGetAllocationGranularity(size_t* unit, const CUmemAllocationProp* of, int which) {
  *unit = which == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ? 2048 : 512;
  return NOTED_BY_DRIVER("%d, %d", of->type, of->location.id);
}
CUresult cuMemAddressReserve(CUdeviceptr* p, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  const CUresult e = NOTED_BY_DRIVER("%zu", bytes);
  if (e) return e;
  *p = 1 << 20;
  it.reserved[*p] = bytes;
  return e;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes) {
  if (it.reserved[p] == bytes) it.reserved.erase(p);
  return NOTED_BY_DRIVER("%llu, %zu", p, bytes);
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* made, size_t bytes, const CUmemAllocationProp* of,
                     unsigned long long) {
  const CUresult e = NOTED_BY_DRIVER("%zu, %d, %d, %d", bytes, of->type, of->location.type, of->location.id);
  if (e) return e;
  it.handles.insert(*made = 333);
  return e;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle made) {
  it.handles.erase(made);
  return NOTED_BY_DRIVER("%llu", made);
}
CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle made, unsigned long long) {
  const CUresult e = NOTED_BY_DRIVER("%llu, %zu, %zu, %llu", p, bytes, offset, made);
  if (!e) it.mapped[p] = bytes;
  return e;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  if (it.mapped[p] == bytes) it.mapped.erase(p);
  return NOTED_BY_DRIVER("%llu, %zu", p, bytes);
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t n) {
  return NOTED_BY_DRIVER("%llu, %zu, %d, %d, %d, %zu", p, bytes, access->location.type, access->location.id,
                         access->flags, n);
}
CUresult cuDeviceGetAttribute(int* value, int which, CUdevice device) {
  *value = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? it.virtual_memory : 1;
  return NOTED_BY_DRIVER("%d, %d", which, device);
}
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** p, unsigned version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found) {
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** p, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  const unsigned version = CUDART_VERSION;
#endif
  // Since which version of CUDA each is what it is declared as.
  struct entry {
    void* function;
    unsigned since;
  };
#define ENTRY(name, since)                          \
  {                                                 \
    #name, { reinterpret_cast<void*>(name), since } \
  }
  static const std::map<string, entry> all = {ENTRY(cuCtxGetDevice, 2000),
                                              ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
                                              ENTRY(cuStreamGetId, 12000),
                                              ENTRY(cuStreamIsCapturing, 10000),
                                              ENTRY(cuEventRecord, 2000),
                                              ENTRY(cuMemGetAllocationGranularity, 10020),
                                              ENTRY(cuMemAddressReserve, 10020),
                                              ENTRY(cuMemAddressFree, 10020),
                                              ENTRY(cuMemCreate, 10020),
                                              ENTRY(cuMemRelease, 10020),
                                              ENTRY(cuMemMap, 10020),
                                              ENTRY(cuMemUnmap, 10020),
                                              ENTRY(cuMemSetAccess, 10020),
                                              ENTRY(cuDeviceGetAttribute, 2000)};
  const auto at = all.find(name);
  const bool there = at != all.end() && !it.old && !it.missing.count(name) && version >= at->second.since && !flags;
  *found = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  *p = there ? at->second.function : nullptr;
  return there || it.missing.count(name) ? cudaSuccess : NOTED("%s", name);
}

namespace {

using gpuhash::cuda_device;

[[noreturn]] void wrong(int line, const string& what) {
  fprintf(stderr, "wrong: line %d: %s\n", line, what.c_str());
  for (const string& call : it.calls) fprintf(stderr, "  %s\n", call.c_str());
  exit(1);
}
#define SAME(got, expected)                                                                      \
  do {                                                                                           \
    const long long got_ = (long long)(got), expected_ = (long long)(expected);                  \
    if (got_ != expected_) wrong(__LINE__, text("%s is %lld, not %lld", #got, got_, expected_)); \
  } while (0)
// These calls were made since the last time, in this order, and no others.
void made(int line, const std::vector<string>& expected) {
  if (it.calls != expected) {
    string all;
    for (const string& call : expected) all += "\n  " + call;
    wrong(line, "expected" + all + "\n got");
  }
  it.calls.clear();
}
#define MADE(...) made(__LINE__, {__VA_ARGS__})
bool was_made(const string& call) {
  for (const string& one : it.calls)
    if (one == call) return true;
  return false;
}
void begin() {
  const bool old = it.old;
  it = {};
  it.old = old;
}

// ---- whose device, and what captures forbid ----------------------------------------------------------------------------

void enter_and_leave() {
  for (int before = 0; before < 3; ++before)
    for (int ordinal = 0; ordinal < 3; ++ordinal)
      for (int mode = 0; mode < 3; ++mode) {
        begin();
        it.device = before, it.mode = mode;
        int note = -1;
        SAME(cuda_device.enter(ordinal, &note), 0);
        SAME(it.device, ordinal);
        SAME(it.mode, cudaStreamCaptureModeRelaxed);
        cuda_device.leave(note);
        SAME(it.device, before);
        SAME(it.mode, mode);
        SAME(it.error, 0);
      }
  for (const char* call : {"cudaGetDevice", "cudaSetDevice", "cudaThreadExchangeStreamCaptureMode"}) {
    begin();
    it.device = 2, it.mode = 1;
    it.fails[call] = 46;
    it.fails["cuThreadExchangeStreamCaptureMode"] = 1;  // then the runtime is asked
    int note = -1;
    SAME(cuda_device.enter(1, &note), 46);
    SAME(it.device, 2);
    SAME(it.mode, 1);
  }
  if (it.old) return;
  begin();
  it.device = 1;
  it.fails["cuCtxGetDevice"] = 201;  // no context is current yet
  int note = -1;
  SAME(cuda_device.enter(1, &note), 0);
  SAME(was_made("cudaSetDevice(1)"), 0);
  cuda_device.leave(note);
  SAME(it.device, 1);
}
void probes() {
  const auto says = [](int ordinal, const char* sentence) {
    char why[256] = "";
    SAME(cuda_device.probe(ordinal, why, sizeof why) != 0, *sentence != 0);
    if (!strstr(why, sentence)) wrong(__LINE__, text("'%s' is not in '%s'", sentence, why));
    SAME(it.error, 0);
  };
  begin();
  says(0, "");
  says(2, "");
  says(3, "cuda:3 does not exist: 3 found");
  says(-1, "cuda:-1 does not exist");
  it.fails["cudaGetDeviceProperties"] = 3;
  says(0, "cuda:0 does not answer");
  begin();
  it.fails["cudaGetDeviceCount"] = 999;
  says(0, "no CUDA device: error 999");
  it.fails["cudaGetDeviceCount"] = cudaErrorInsufficientDriver;
  const int version = CUDART_VERSION;
  const string built = text("for an older CUDA than %d.%d, with which", version / 1000, version % 1000 / 10);
  says(0, built.c_str());
  for (const int good : {75, 80, 90, 120}) {
    begin();
    it.capability = good;
    says(1, "");
  }
  for (const int bad : {35, 61, 70, 72}) {
    begin();
    it.capability = bad;
    says(1, "7.5 is needed");
  }
  for (const int capability : {75, 80, 89, 90, 100}) {
    begin();
    it.capability = capability;
    SAME(cuda_device.has_wide_cas(1), capability >= 90);
    SAME(was_made("cudaDeviceGetAttribute(75, 1)"), 1);
    it.fails["cudaDeviceGetAttribute"] = 1;
    SAME(cuda_device.has_wide_cas(1), 0);
  }
}

// ---- memory ------------------------------------------------------------------------------------------------------------

void memory() {
  void* p = nullptr;
  begin();
  it.device = 70;  // there are no pools of our own for so many
  SAME(cuda_device.allocate(&p, 100, handle(7)), 0);
  SAME(was_made("cudaMallocAsync(100, 7)"), 1);
  begin();
  it.fails["cudaMemPoolCreate"] = 801;
  SAME(cuda_device.allocate(&p, 100, handle(7)), 0);
  SAME(was_made("cudaMallocAsync(100, 7)"), 1);
  SAME(it.error, 0);
  begin();
  it.fails["cudaGetDeviceProperties"] = 3;
  SAME(cuda_device.allocate(&p, 100, handle(7)), 0);
  SAME(was_made("cudaMallocAsync(100, 7)"), 1);
  SAME(it.pool_device.size(), 0);
  SAME(it.error, 0);
  begin();
  it.device = 1;
  it.in_pool_create = [] { gpuhash::cuda_detail::pools[1] = cudaMemPool_t(handle(1234)); };  // another thread
  SAME(cuda_device.allocate(&p, 100, handle(7)), 0);
  SAME(was_made("cudaMemPoolDestroy(1000)"), 1);
  SAME(was_made("cudaMallocFromPoolAsync(100, 1234, 7)"), 1);
  begin();
  for (int round = 0; round < 2; ++round)
    for (const int device : {0, 2}) {
      it.device = device;
      SAME(cuda_device.allocate(&p, 100, handle(7)), 0);
      const int pool = device == 0 ? 1000 : 1001;
      SAME(it.pool_device[handle(pool)], device);
      SAME(it.kept[handle(pool)], (1600 + device) / 8);
      SAME(was_made(text("cudaMallocFromPoolAsync(100, %d, 7)", pool)), 1);
      SAME(was_made(text("cudaMemPoolCreate(1, 1, %d)", device)), round == 0);
      SAME(it.pool_device.size(), round == 0 && device == 0 ? 1 : 2);
      it.calls.clear();
    }
  it.fails["cudaMallocFromPoolAsync"] = it.fails["cudaMallocAsync"] = it.fails["cudaHostAlloc"] = 2;
  SAME(cuda_device.allocate(&p, 100, handle(7)), cuda_device.out_of_memory);
  SAME(it.error, 0);
  it.device = 70;
  SAME(cuda_device.allocate(&p, 100, handle(7)), cuda_device.out_of_memory);
  SAME(it.error, 0);
  SAME(cuda_device.allocate_pinned(&p, 100), cuda_device.out_of_memory);
  SAME(it.error, 0);
  begin();
  SAME(cuda_device.allocate_pinned(&p, 100), 0);
  MADE("cudaHostAlloc(100, 3)");
  SAME(cuda_device.release_pinned(handle(512)), 0);
  MADE("cudaFreeHost(512)");
  SAME(cuda_device.release(handle(4096), handle(7)), 0);
  MADE("cudaFreeAsync(4096, 7)");
  SAME(cuda_device.fill(handle(4096), 255, 30, handle(7)), 0);
  MADE("cudaMemsetAsync(4096, 255, 30, 7)");
  SAME(cuda_device.copy(handle(64), handle(32), 30, handle(7)), 0);
  MADE("cudaMemcpyAsync(64, 32, 30, 4, 7)");
}

// ---- streams, events, graphs --------------------------------------------------------------------------------------------

void streams() {
  begin();
  void* p = nullptr;
  it.device = 1;
  SAME(cuda_device.borrow_stream(1, &p), 0);
  SAME(number(p), 9);
  SAME(was_made("cudaStreamCreateWithFlags(1)"), 1);
  cuda_device.return_stream(1, handle(9));
  cuda_device.return_stream(2, handle(10));
  it.calls.clear();
  it.device = 0;
  SAME(cuda_device.borrow_stream(1, &p), 0);  // wherever the thread is
  SAME(number(p), 9);
  SAME(cuda_device.borrow_stream(2, &p), 0);
  SAME(number(p), 10);
  SAME(it.calls.size(), 0);
  SAME(cuda_device.borrow_stream(1, &p), int(cudaErrorInvalidDevice));  // it would be made elsewhere
  SAME(was_made("cudaStreamCreateWithFlags(1)"), 0);
  it.device = 1;
  it.fails["cudaStreamCreateWithFlags"] = 2;
  SAME(cuda_device.borrow_stream(1, &p), cuda_device.out_of_memory);
  begin();
  SAME(cuda_device.wait(handle(9)), 0);
  MADE("cudaStreamSynchronize(9)");
  SAME(cuda_device.make_event(&p), 0);
  SAME(number(p), 8);
  MADE("cudaEventCreateWithFlags(2)");
  cuda_device.drop_event(handle(8));
  MADE("cudaEventDestroy(8)");
  SAME(cuda_device.record(handle(8), handle(9)), 0);
  if (it.old)
    MADE("cudaEventRecord(8, 9)");
  else
    MADE("cuEventRecord(8, 9)");
  it.fails["cuEventRecord"] = 201;
  it.fails["cudaEventRecord"] = 400;
  SAME(cuda_device.record(handle(8), handle(9)), 400);
  it.fails.clear();
  it.calls.clear();
  SAME(cuda_device.follow(handle(9), handle(8)), 0);
  MADE("cudaStreamWaitEvent(9, 8, 0)");
  SAME(cuda_device.follow_in_graph(handle(9), handle(8)), 0);
  MADE("cudaStreamWaitEvent(9, 8, 1)");
  SAME(cuda_device.finished(handle(8)), 1);
  MADE("cudaEventQuery(8)");
  it.fails["cudaEventQuery"] = 600;  // it is not
  SAME(cuda_device.finished(handle(8)), 0);
  begin();
  uint64_t id = 0;
  SAME(cuda_device.stream_id(handle(9), &id), 0);
  SAME(id, 300);
  it.fails["cuStreamGetId"] = 201;
  id = 0;
  SAME(cuda_device.stream_id(handle(9), &id), 0);
  SAME(id, 300);
  it.fails["cudaStreamGetId"] = 400;
  SAME(cuda_device.stream_id(handle(9), &id), 400);
  SAME(!strcmp(cuda_device.error_text(400), "error 400"), 1);
}
void graphs() {
  const auto asked = [](int answer, long long expected, const char* sentence) {
    void* graph = handle(1);
    const char* forbids = "?";
    SAME(cuda_device.captured_by(handle(9), &graph, &forbids), answer);
    SAME(number(graph), expected);
    if (!forbids != !sentence || (sentence && strcmp(forbids, sentence)))
      wrong(__LINE__, text("'%s' instead of '%s'", forbids ? forbids : "", sentence ? sentence : ""));
  };
  begin();
  asked(0, 0, nullptr);
  it.capture = cudaStreamCaptureStatusActive;
  asked(0, 77, nullptr);
  it.capture = cudaStreamCaptureStatusInvalidated;
  asked(0, 0, "error 901");
  it.capture = cudaStreamCaptureStatusNone;
  it.fails["cuStreamIsCapturing"] = 900;
  asked(0, 0, nullptr);
  for (const int of_captures : {900, 905, 908}) {
    it.fails["cudaStreamGetCaptureInfo"] = of_captures;
    asked(0, 0, text("error %d", of_captures).c_str());
    SAME(it.error, 0);
  }
  for (const int other : {400, 899, 909}) {
    it.fails["cudaStreamGetCaptureInfo"] = other;
    asked(other, 0, nullptr);
  }
  begin();
  SAME(cuda_device.keep_while(handle(77), [](void*) {}, handle(66)), 0);
  MADE("cudaUserObjectCreate(66, 1, 1, 1)", "cudaGraphRetainUserObject(77, 55, 1, 1)");
  it.fails["cudaGraphRetainUserObject"] = 5;
  SAME(cuda_device.keep_while(handle(77), [](void*) {}, handle(66)), 5);
  it.calls.clear();
  it.fails["cudaUserObjectCreate"] = 4;
  SAME(cuda_device.keep_while(handle(77), [](void*) {}, handle(66)), 4);
  MADE("cudaUserObjectCreate(66, 1, 1, 1)");
}

// ---- address space -------------------------------------------------------------------------------------------------------

void space() {
  void* p = nullptr;
  size_t bytes = 0, unit = 0;
  const auto reserve = [&](size_t wanted) {
    bytes = wanted;
    return cuda_device.reserve_space(&p, &bytes, &unit);
  };
  begin();
  if (it.old || gpuhash::cuda_detail::space().complete == false) {
    SAME(reserve(100), cudaErrorNotSupported);
    SAME(it.error, 0);
    return;
  }
  it.virtual_memory = 0;
  SAME(reserve(100), cudaErrorNotSupported);
  begin();
  it.device = 2;
  for (const auto& [wanted, rounded] :
       std::map<size_t, size_t>{{1, 2048}, {2048, 2048}, {2049, 4096}, {40960, 40960}}) {
    SAME(reserve(wanted), 0);
    SAME(bytes, rounded);
    SAME(unit, 2048);
    SAME(number(p), 1 << 20);
    SAME(it.reserved[1 << 20], rounded);
    SAME(cuda_device.release_space(p, bytes), 0);
    SAME(it.reserved.size(), 0);
  }
  SAME(was_made("cuDeviceGetAttribute(102, 2)"), 1);
  SAME(was_made("cuMemGetAllocationGranularity(1, 2)"), 1);
  for (const char* call : {"cudaGetDevice", "cuMemGetAllocationGranularity", "cuMemAddressReserve"}) {
    it.fails[call] = 2;
    SAME(reserve(100), 2);
    it.fails.clear();
  }
  it.fails["cuDeviceGetAttribute"] = 1;
  SAME(reserve(100), cudaErrorNotSupported);
  it.fails["cuMemAddressFree"] = 7;
  SAME(cuda_device.release_space(handle(1 << 20), 2048), 7);

  begin();
  it.device = 2;
  SAME(cuda_device.map_memory(handle(1 << 20), 4096), 0);
  MADE("cudaGetDevice( )", "cuMemCreate(4096, 1, 1, 2)", "cuMemMap(1048576, 4096, 0, 333)", "cuMemRelease(333)",
       "cuMemSetAccess(1048576, 4096, 1, 2, 3, 1)");
  SAME(it.mapped[1 << 20], 4096);
  SAME(cuda_device.unmap_memory(handle(1 << 20), 4096), 0);
  SAME(it.mapped.size(), 0);
  it.fails["cuMemUnmap"] = 7;
  SAME(cuda_device.unmap_memory(handle(1 << 20), 4096), 7);
  for (const char* call : {"cudaGetDevice", "cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {  // nothing is left behind
    begin();
    it.fails[call] = 2;
    SAME(cuda_device.map_memory(handle(1 << 20), 4096), 2);
    SAME(it.mapped.size(), 0);
    SAME(it.handles.size(), 0);
  }
}

// ---- launches ------------------------------------------------------------------------------------------------------------

void kernel(int, unsigned long long) {}
void launches() {
  using namespace gpuhash;
  begin();
  it.device = 1;
  SAME(multiprocessors(), 1601);
  SAME(block_bytes_at_most(), 9701);
  it.fails["cudaGetDevice"] = 1;
  SAME(multiprocessors(), 0);
  begin();
  it.fails["cudaDeviceGetAttribute"] = 1;
  SAME(block_bytes_at_most(), 0);
  begin();
  SAME(launch(kernel, 5, 64, handle(9), 3, 1ull << 40), 0);
  MADE("cudaLaunchKernel(1, 5, 64, 1, 3, 1099511627776, 0, 9)");
  SAME(launch(kernel, 0x7fffffff, 64, handle(9), 3, 4), 0);
  MADE("cudaLaunchKernel(1, 2147483647, 64, 1, 3, 4, 0, 9)");
  for (const unsigned long long many : {0x80000000ull, 1ull << 32, (1ull << 32) + 1, 1ull << 63}) {
    SAME(launch(kernel, many, 64, handle(9), 3, 4), cudaErrorInvalidValue);
    MADE();
  }
  SAME(launch_with(kernel, 5, 64, 70000, handle(9), 3, 4), 0);
  MADE("cuda_func_set_attribute(1, 8, 70000)", "cudaLaunchKernel(1, 5, 64, 1, 3, 4, 70000, 9)");
  SAME(launch_with(kernel, 5, 64, 48 * 1024, handle(9), 3, 4), 0);  // any kernel may have as much
  MADE("cudaLaunchKernel(1, 5, 64, 1, 3, 4, 49152, 9)");
  it.device = 2;
  it.capability = 90;
  SAME(launch_next(kernel, 5, 64, 70000, handle(9), 3, 1ull << 40), 0);
  SAME(was_made("cuda_func_set_attribute(1, 8, 70000)"), 1);
  SAME(was_made("cudaLaunchKernelExC(1, 5, 64, 1, 3, 1099511627776, 70000, 9, 1)"), 1);
  it.capability = 89;  // a device is asked once
  SAME(launch_next(kernel, 5, 64, 0, handle(9), 3, 4), 0);
  SAME(std::count(it.calls.begin(), it.calls.end(), "cudaFuncGetAttributes(1)"), 1);
  SAME(was_made("cudaLaunchKernelExC(1, 5, 64, 1, 3, 4, 0, 9, 1)"), 1);
  for (const int device : {3, 3, 70}) {  // code for older processors; a device beyond those that are remembered
    it.device = device;
    SAME(launch_next(kernel, 5, 64, 0, handle(9), 3, 5), 0);
  }
  SAME(std::count(it.calls.begin(), it.calls.end(), "cudaLaunchKernelExC(1, 5, 64, 1, 3, 5, 0, 9, 0)"), 3);
  it.device = 4;
  it.fails["cudaFuncGetAttributes"] = 98;
  SAME(launch_next(kernel, 5, 64, 0, handle(9), 3, 6), 0);
  SAME(was_made("cudaLaunchKernelExC(1, 5, 64, 1, 3, 6, 0, 9, 0)"), 1);
  SAME(it.error, 0);
  begin();
  it.fails["cudaLaunchKernel"] = it.fails["cudaLaunchKernelExC"] = 98;
  SAME(launch(kernel, 5, 64, handle(9), 3, 4), 98);
  SAME(it.error, 0);
  SAME(launch_next(kernel, 5, 64, 0, handle(9), 3, 4), 98);
  SAME(it.error, 0);
  it.calls.clear();
  it.fails["cuda_func_set_attribute"] = 1;
  SAME(launch_with(kernel, 5, 64, 70000, handle(9), 3, 4), 1);
  SAME(it.error, 0);
  SAME(launch_next(kernel, 5, 64, 70000, handle(9), 3, 4), 1);
  SAME(it.error, 0);
  MADE("cuda_func_set_attribute(1, 8, 70000)", "cuda_func_set_attribute(1, 8, 70000)");
  begin();
  it.fails["cudaMemGetInfo"] = 2;
  SAME(bytes_of_device(), 0);
  SAME(it.error, 0);
  begin();
  for (const int device : {1, 70, 1, 70}) {  // it keeps what it is told of 64 of them
    it.device = device;
    SAME(bytes_of_device(), size_t(1600 + device));
  }
  SAME(std::count(it.calls.begin(), it.calls.end(), "cudaMemGetInfo( )"), 3);
  begin();
  SAME(cuda_device.count_adding(nullptr, nullptr, 5, nullptr, handle(9)), 0);
  SAME(it.calls.size(), 1);
  SAME(cuda_device.pick_keys(nullptr, nullptr, 500, 8, nullptr, 64, handle(9)), 0);
  SAME(cuda_device.pick_keys(nullptr, nullptr, 500, 4, nullptr, 64, handle(9)), 0);
  SAME(it.calls.size(), 3);
  SAME(cuda_device.sketch_keys(nullptr, nullptr, 500, 8, nullptr, handle(9)), 0);
  SAME(cuda_device.sketch_keys(nullptr, nullptr, 500, 4, nullptr, handle(9)), 0);
  SAME(it.calls.size(), 5);
}
}  // namespace

int main(int argc, char** argv) {
  it.old = argc > 1 && !strcmp(argv[1], "old");
  if (argc > 1 && !strncmp(argv[1], "cu", 2)) it.missing.insert(argv[1]);
  if (!it.missing.empty()) {  // a driver that lacks one function of address space
    size_t bytes = 100, unit = 0;
    void* p = nullptr;
    SAME(cuda_device.reserve_space(&p, &bytes, &unit), cudaErrorNotSupported);
    return 0;
  }
  enter_and_leave();
  probes();
  memory();
  streams();
  graphs();
  space();
  launches();
  return 0;
}
