#pragma once
// TRIREME_ASSET(name, path) embeds a file as bytes of the object file. asset_NAME() returns them.
#include <cstddef>
#include <string_view>

#define TRIREME_ASSET(name, path)                                                           \
  asm(".section .rodata\n.global trireme_asset_" #name "\n.global trireme_asset_end_" #name \
      "\ntrireme_asset_" #name ":\n.incbin \"" path "\"\ntrireme_asset_end_" #name          \
      ":\n.byte 0\n.previous\n");                                                           \
  extern "C" const char trireme_asset_##name[], trireme_asset_end_##name[];                 \
  static std::string_view asset_##name() {                                                  \
    return {trireme_asset_##name,                                                           \
            static_cast<std::size_t>(trireme_asset_end_##name - trireme_asset_##name)};     \
  }
