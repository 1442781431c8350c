"""What each operation of torch does with the owners of its entries: one rule a family, one line a name."""

from __future__ import annotations

from .elementwise import copied, elementwise, fresh, gated, kept, noise, normalised, same
from .moves import complex_view, concatenated, packed, padded, repeated, replayed, unpacked, viewed
from .picks import (
    bagged,
    bucketed,
    drawn,
    embedded,
    filled,
    gathered,
    indexed,
    masked,
    put,
    scattered,
    sorted_,
    told_once,
)
from .rule import Rule
from .sums import counted, gridded, over, pooled, refolded, running, sampled, summed_over, unfolded
from .weighted import (
    attended,
    attended_by,
    convolved,
    grouped,
    linear,
    multiplied,
    paired,
    recurrent,
    times_vector,
    trilinear,
)

__all__ = ["RULES", "attended_by", "elementwise", "viewed"]


def _names(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, Rule] = {
    **_names(same, "clone _to_copy contiguous alias detach lift_fresh_copy native_dropout _softmax _log_softmax"),
    **_names(same, "softmax log_softmax"),
    **_names(same, "_safe_softmax bernoulli renorm rrelu_with_noise_functional"),
    **_names(over("dim"), "cumprod logcumsumexp cummax cummin"),
    **_names(running, "cumsum"),
    **_names(same, "_fake_quantize_learnable_per_tensor_affine fake_quantize_per_tensor_affine_cachemask tril triu"),
    **_names(same, "fake_quantize_per_channel_affine_cachemask requires_grad"),
    **_names(
        elementwise, "prelu _prelu_kernel rrelu rrelu_with_noise complex polar dropout feature_dropout floor_divide"
    ),
    **_names(
        normalised(1),
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm "
        "_batch_norm_with_update _batch_norm_no_update miopen_batch_norm native_group_norm batch_norm",
    ),
    **_names(normalised(-1), "native_layer_norm _fused_rms_norm rms_norm layer_norm"),
    **_names(
        viewed, "view _unsafe_view _reshape_alias reshape expand permute transpose t squeeze unsqueeze select slice"
    ),
    **_names(
        viewed,
        "split split_with_sizes unsafe_split unsafe_split_with_sizes unbind unfold diagonal movedim narrow",
    ),
    **_names(
        viewed, "transpose_copy expand_copy permute_copy select_copy slice_copy unsqueeze_copy squeeze_copy split_copy"
    ),
    **_names(complex_view, "view_as_real view_as_complex real imag conj _conj _neg_view resolve_conj _conj_physical"),
    **_names(
        replayed, "flip roll rot90 pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle diag_embed"
    ),
    **_names(repeated, "repeat repeat_interleave tile"),
    **_names(padded, "constant_pad_nd"),
    **_names(concatenated, "cat stack"),
    **_names(indexed, "index _unsafe_index"),
    **_names(gathered, "gather index_select"),
    **_names(embedded, "embedding"),
    **_names(bagged, "_embedding_bag _embedding_bag_forward_only"),
    **_names(scattered, "scatter scatter_add scatter_reduce index_add index_copy index_reduce index_fill"),
    **_names(gated, "glu"),
    **_names(filled, "masked_scatter"),
    **_names(put, "index_put _unsafe_index_put _index_put_impl"),
    **_names(copied, "copy"),
    **_names(sorted_, "sort topk"),
    **_names(masked, "masked_select"),
    **_names(summed_over, "sum mean amax amin max min any all argmax argmin prod std var std_mean var_mean logsumexp"),
    **_names(summed_over, "nansum norm linalg_vector_norm median nanmedian mode kthvalue aminmax count_nonzero"),
    **_names(over("dim"), "_fft_r2c _fft_c2c _fft_c2r"),
    **_names(pooled(1), "avg_pool1d adaptive_avg_pool1d max_pool1d upsample_linear1d upsample_nearest1d"),
    **_names(pooled(1), "reflection_pad1d replication_pad1d max_pool1d_with_indices _upsample_nearest_exact1d"),
    **_names(pooled(2), "avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d max_pool2d_with_indices max_pool2d"),
    **_names(
        pooled(2), "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa mkldnn_max_pool2d"
    ),
    **_names(pooled(2), "_upsample_bicubic2d_aa _upsample_nearest_exact2d reflection_pad2d replication_pad2d"),
    **_names(pooled(2), "adaptive_avg_pool2d fractional_max_pool2d max_unpool2d mkldnn_adaptive_avg_pool2d"),
    **_names(
        pooled(3), "avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d max_pool3d_with_indices upsample_nearest3d"
    ),
    **_names(pooled(3), "upsample_trilinear3d reflection_pad3d replication_pad3d"),
    **_names(sampled, "grid_sampler_2d grid_sampler_3d"),
    **_names(gridded, "affine_grid_generator"),
    **_names(unfolded, "im2col"),
    **_names(refolded, "col2im"),
    **_names(multiplied, "mm bmm addmm baddbmm"),
    **_names(times_vector, "mv addmv dot vdot"),
    **_names(linear, "linear mkldnn_linear"),
    **_names(convolved, "convolution convolution_overrideable _convolution"),
    **_names(
        attended,
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
        "_scaled_dot_product_attention_math scaled_dot_product_attention",
    ),
    **_names(grouped, "_grouped_mm"),
    **_names(paired, "_cdist_forward _euclidean_dist"),
    **_names(trilinear, "_trilinear"),
    **_names(recurrent, "mkldnn_rnn_layer"),
    **_names(packed, "_pack_padded_sequence"),
    **_names(unpacked, "_pad_packed_sequence"),
    **_names(kept, "fill zero masked_fill"),
    **_names(fresh, "zeros_like ones_like full_like empty_like randint_like new_zeros new_ones new_full"),
    **_names(fresh, "new_empty new_empty_strided scalar_tensor random"),
    **_names(noise, "rand randn rand_like randn_like normal_functional normal uniform exponential cauchy log_normal"),
    **_names(counted, "nonzero nonzero_static bincount histc histogram"),
    **_names(drawn, "multinomial"),
    **_names(bucketed, "bucketize searchsorted"),
    **_names(told_once, "_unique2 unique_consecutive unique_dim"),
}
