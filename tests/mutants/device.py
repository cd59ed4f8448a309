"""Mutants of the device's kernels: name, file, right, wrong, suite."""
from suites import simulated

MUTANTS = [
    ("a column is added up before its parts are there", "kernels/cuda/kernels/reduce.cu",
     "  of_strip[strip][lane] = sum;\n  __syncthreads();\n", "  of_strip[strip][lane] = sum;\n",
     simulated("*UpdateContract.ColumnSum/cuda*")),
    ("sums of a block's teams meet too early", "kernels/cuda/kernels/norm.cu", "if constexpr (Team::teams > 1) __syncthreads();", "",
     simulated("*NormContract.LayerNormGradient/cuda_f32")),
    ("a sum of squares misses its last part", "kernels/cuda/kernels/squares.cu", "part < arrays.first[i + 1];",
     "part < arrays.first[i + 1] - 1;", simulated("*UpdateContract.SumsOfSquares*/cuda_f32")),
    ("a step leaves out what fills no pack", "kernels/cuda/kernels/optimizer.cu",
     "  for (auto at = packed + threadIdx.x; at < end;", "  for (auto at = packed + threadIdx.x; at < packed;",
     simulated("*UpdateContract.ManyShardsAtATime/cuda_f32")),
    ("a tile is overwritten while it is read", "kernels/cuda/kernels/attention.cu",
     "    __syncthreads();  // all have read the last tile\n", "", simulated("*AttentionContract.Forward/cuda_f32")),
    ("a key forgets its first query", "kernels/cuda/kernels/attention_grad.cu", "max(j - begin, std::int64_t{0})",
     "max(j - begin + 1, std::int64_t{0})", simulated("*AttentionContract.Gradient/cuda_f32")),
    ("a target's logit is read too late", "kernels/cuda/kernels/loss.cu",
     "  __syncthreads();  // the target's logit was read\n", "", simulated("*CrossEntropy*/cuda*")),
    ("attention sees what comes later", "kernels/cuda/attention/cudnn/sdpa.cpp",
     ".set_diagonal_band_right_bound(0);\n    const auto [o, lse]", ";\n    const auto [o, lse]",
     simulated("*AttentionContract.Forward/cuda_bf16")),
    ("each row of an id adds all of them", "kernels/cuda/kernels/embedding.cu",
     "  if (i > 0 && sorted_ids_T[i - 1] == id) return;\n", "", simulated("*EmbeddingGradient/cuda*")),
    ("sums in a product overwrite", "kernels/cuda/products/product.cpp",
     "return p.adds() ? p.workspace.data + sums_at : p.epilogue.row_sum_M.data;",
     "return p.epilogue.row_sum_M.data;", simulated("*MatmulContract*/cuda_epilogues*")),
]
