#include "lib/io/master_file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;

// Each element of the range exactly once, in order, and no more boxes than promised.
TEST(BoxesOf, CoverEveryRangeOfASmallShape) {
  for (const Shape& shape : {Shape{7}, Shape{4, 3}, Shape{2, 3, 4}}) {
    const int dims = shape.dims();
    for (std::int64_t begin = 0; begin < shape.count(); ++begin) {
      for (std::int64_t count = 1; begin + count <= shape.count(); ++count) {
        const auto boxes = boxes_of(shape, begin, count);
        EXPECT_LE(boxes.size(), static_cast<std::size_t>(2 * dims - 1));
        std::int64_t next = begin;
        for (const auto& b : boxes) {
          std::int64_t elements = 1, first = 0;
          for (int d = 0; d < dims; ++d) {
            const auto i = static_cast<std::size_t>(d);
            first = first * shape[d] + b.start[i];
            elements *= b.count[i];
            ASSERT_LE(b.start[i] + b.count[i], shape[d]);
            // Contiguous: below the first dim with more than one row all dims are whole.
            ASSERT_TRUE(d == 0 || b.count[i - 1] == 1 || b.count[i] == shape[d]);
          }
          ASSERT_EQ(first, next);
          next += elements;
        }
        ASSERT_EQ(next, begin + count);
      }
    }
  }
}

constexpr const char* h5py_program = R"(
import sys, os, h5py, numpy
checkpoint, expected = sys.argv[1:]
os.chdir("/")
names = 0
with h5py.File(os.path.join(checkpoint, "master.h5"), "r") as f:
    for group in ("weights", "moment1", "slow_2"):
        for name, dataset in f[group].items():
            whole = numpy.fromfile(os.path.join(expected, group + "." + name), dtype=dataset.dtype)
            assert dataset[()].tobytes() == whole.tobytes(), name
            names += 1
    assert f["weights/block.0.qkv"].shape == (3, 5, 7)
    assert f["weights/block.0.scale"].dtype == numpy.float64
    assert int(f.attrs["step"]) == 420
assert names == 10, names
os.rename(os.path.join(checkpoint, "rank-00001.h5"), os.path.join(checkpoint, "gone"))
with h5py.File(os.path.join(checkpoint, "master.h5"), "r") as f:
    table = f["weights/embedding.table"][()].reshape(-1)
    share = table.size // 3
    assert numpy.isnan(table[share:2 * share]).all()
    whole = numpy.fromfile(os.path.join(expected, "weights.embedding.table"), dtype=table.dtype)
    assert table[:share].tobytes() == whole[:share].tobytes()
with h5py.File(os.path.join(checkpoint, "rank-00002.h5"), "r") as f:
    bias = f["weights/block.0.bias"]
    assert bias.fletcher32 and list(bias.attrs["shape"]) == [77] and int(bias.attrs["offset"][0]) == 50
    assert int(f.attrs["step"][0]) == 420 and f.attrs["run"] == b"f00d" or f.attrs["run"] == "f00d"
)";

// h5py opens virtual datasets from any working directory; HDF5 checks every fletcher32 on the way.
TEST(MasterFile, H5pyReadsEveryParameterWhole) {
  if (std::system("/usr/bin/python3 -c 'import h5py' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "/usr/bin/python3 has no h5py (package python3-h5py): the master file was not "
                    "read by another program";
  }
  Folder folder;
  const auto checkpoint = save_sample(folder.path(), 420, 3);
  const auto expected = folder.path() / "expected";
  std::filesystem::create_directory(expected);
  for (const auto& p : sample_model()) {
    for (const auto array : sample_arrays) {
      const auto bytes = sample_bytes(p, array, 420);
      std::ofstream(expected / fmt::format("{}.{}", array, p.name), std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
  }
  const auto program = folder.path() / "check.py";
  std::ofstream(program) << h5py_program;

  const int code = std::system(fmt::format("/usr/bin/python3 {} {} {}", program.string(),
                                           checkpoint.string(), expected.string())
                                   .c_str());

  EXPECT_EQ(code, 0);
}

TEST(MasterFile, H5dumpShowsAParameter) {
  if (std::system("h5dump --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no h5dump on the path (package hdf5-tools)";
  }
  Folder folder;
  const auto checkpoint = save_sample(folder.path(), 420, 3);
  const auto text = folder.path() / "dump";
  const int code = std::system(fmt::format("h5dump -d weights/block.0.qkv {} >{} 2>&1",
                                           (checkpoint / "master.h5").string(), text.string())
                                   .c_str());
  EXPECT_EQ(code, 0);
  std::ifstream in(text);
  const std::string dump((std::istreambuf_iterator<char>(in)), {});
  EXPECT_TRUE(contains(dump, "( 3, 5, 7 )")) << dump;
  EXPECT_TRUE(contains(dump, "(2,4,0): ")) << dump;
  EXPECT_FALSE(contains(dump, "nan")) << dump;
}

}  // namespace trireme
