// Names and numbers of the container that save.cpp writes and load.cpp reads (docs/saved.md).
#pragma once
#include <cstdint>
#include <string_view>

namespace gpuhash::saved {

inline constexpr std::string_view magic{"ARROW1\0\0", 8}, last_magic{"ARROW1", 6}, mark{"\xff\xff\xff\xff", 4};
inline constexpr std::string_view end_mark{"\xff\xff\xff\xff\0\0\0\0", 8}, no_sum = "00000000";
inline constexpr const char* record_name = "gpuhash";
inline constexpr const char* sums_name = "gpuhash.checksums";
inline constexpr int version = 1;                                // of the container
inline constexpr int metadata_v5 = 4;                            // of Arrow's metadata
inline constexpr uint8_t schema_message = 1, batch_message = 3;  // of the union MessageHeader
inline constexpr uint8_t integer_type = 2, float_type = 3, list_type = 16, bytes_type = 15, timestamp_type = 10,
                         duration_type = 18;  // of the union Type
inline constexpr uint64_t alignment = 64;

inline constexpr uint64_t padded(uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace gpuhash::saved
