// Opens an exclusive operation of a table: `hold` in scope, or return.
#pragma once

#define GPUHASH_EXCLUSIVE(stream_)                                                   \
  if (poisoned_) return poisoned(err);                                               \
  on_device scope(*this);                                                            \
  if (scope.error) return fault(err, scope.error, "choosing the table's device");    \
  if (const gpuhash_status captured = refuse_capture(stream_, err)) return captured; \
  exclusive hold(*this, stream_);                                                    \
  if (hold.error) return fault(err, hold.error, "waiting for running batches")
// The same for operations that wait for running batches: they report failed elements of queued batches (report_failures).
#define GPUHASH_EXCLUSIVE_AND_WAIT(stream_) \
  GPUHASH_EXCLUSIVE(stream_);               \
  if (const gpuhash_status unreported = report_failures(stream_, err)) return unreported
// The same for operations that are given no stream: on own_stream_.
#define GPUHASH_EXCLUSIVE_WITHOUT_STREAM                                          \
  if (poisoned_) return poisoned(err);                                            \
  on_device scope(*this);                                                         \
  if (scope.error) return fault(err, scope.error, "choosing the table's device"); \
  const borrowed_stream own(*this);                                               \
  if (own.error) return fault(err, own.error, "making a stream");                 \
  exclusive hold(*this, own.get());                                               \
  if (hold.error) return fault(err, hold.error, "waiting for running batches");   \
  own_stream_ = own.get();                                                        \
  if (const gpuhash_status unreported = report_failures(own_stream_, err)) return unreported
