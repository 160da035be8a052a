// CRC-32 as zlib has it, eight bytes at a time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuhash::saved {

constexpr std::array<std::array<uint32_t, 256>, 8> crc_tables() {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    t[0][i] = c;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xff];
  return t;
}
inline constexpr auto crc_table = crc_tables();

// Of the bytes behind those of which `before` is the sum.
inline uint32_t crc32(const void* data, size_t bytes, uint32_t before = 0) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  const auto& t = crc_table;
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t c = ~before;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= c;
    c = t[7][low & 0xff] ^ t[6][low >> 8 & 0xff] ^ t[5][low >> 16 & 0xff] ^ t[4][low >> 24] ^ t[3][high & 0xff] ^
        t[2][high >> 8 & 0xff] ^ t[1][high >> 16 & 0xff] ^ t[0][high >> 24];
  }
  for (; bytes; --bytes, ++p) c = c >> 8 ^ t[0][(c ^ *p) & 0xff];
  return ~c;
}

}  // namespace gpuhash::saved
