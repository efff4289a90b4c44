// Code whose lanes number their ways, for tests of more than one room. EXITs are where collatz has its own, at 0x70 and 0x290.
#pragma once

#include <string>
#include <vector>

namespace xtrace {

// A loop of three rounds, whose head waits for a special register. From there lanes go to the last EXIT, or to a region that they leave for the BSYNC
// at 0x1e0, some through 0x1d0, or in which they end: at 0x70 under a guard, at the last EXIT all that come there.
inline std::vector<std::string> code_with_ways() {
  return {"IADD3 R6, RZ, 0x3, RZ",
          "S2R R4, SR_LANEID", "LOP3.LUT R7, R4, 0xf, RZ, 0xc0, !PT", "IADD3 R6, R6, -0x1, RZ", "ISETP.LT.AND P1, PT, R6, RZ, PT", "@P1 BRA 0x290",   // 0x10
          "ISETP.EQ.AND P0, PT, R7, 0xc, PT", "@P0 EXIT",                                                                                           // 0x60
          "BSSY B0, 0x1f0", "IADD3 R7, R7, R6, RZ", "ISETP.EQ.AND P0, PT, R7, 0x1, PT", "@P0 BRA 0x1e0",                                            // 0x80
          "ISETP.EQ.AND P0, PT, R7, 0x2, PT", "@P0 BRA 0x290", "ISETP.EQ.AND P0, PT, R7, 0x3, PT", "@P0 BRA 0x1d0",                                 // 0xc0
          "ISETP.EQ.AND P0, PT, R7, 0x4, PT", "@P0 BRA 0x1e0", "ISETP.EQ.AND P0, PT, R7, 0x5, PT", "@P0 BRA 0x290",                                 // 0x100
          "ISETP.EQ.AND P0, PT, R7, 0x6, PT", "@P0 BRA 0x1d0", "ISETP.EQ.AND P0, PT, R7, 0x7, PT", "@P0 BRA 0x1e0",                                 // 0x140
          "ISETP.EQ.AND P0, PT, R7, 0x8, PT", "@P0 BRA 0x1d0", "ISETP.EQ.AND P0, PT, R7, 0x9, PT", "@P0 BRA 0x1e0", "IADD3 R8, RZ, 0x1, RZ",        // 0x180
          "IADD3 R8, R8, 0x1, RZ",                                                                                                                  // 0x1d0
          "BSYNC B0",                                                                                                                               // 0x1e0
          "IADD3 R9, R9, R8, RZ", "BRA 0x10"};                                                                                                      // 0x1f0
}

}  // namespace xtrace
