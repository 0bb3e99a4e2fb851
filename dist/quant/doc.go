// Package quant reduces float tensors over a group in eight bits per element, as
// torchft's quantised collectives do.
//
//	err := quant.AllReduce(ctx, g, tensor.Of(grads), tensor.Avg, quant.Options{Format: quant.E4M3})
//
// # The verb
//
//	quantise ─▶ all-to-all ─▶ dequantise, reduce in float32 ─▶ quantise ─▶ all-gather ─▶ dequantise
//
// The elements are cut into rows of Options.Row; the last one may be shorter. Each row
// is sent as a float32 scale and a code of one byte for each element. Rank r of W reduces
// the rows from r·P to (r+1)·P, where P is the number of rows divided by W, rounded up; rows
// beyond the last one are sent as zeros, so that all slots are of one size.
//
// Every rank takes its result, that of its own rows too, from what the all-gather gave. So
// all ranks hold the same bytes afterwards, on any processor.
//
// # Who takes part
//
// The verb is composed ([pg.Group.Compose]): it waits until it is known who takes part, and
// both ops run among the same ranks, or it fails with pg.ErrAborted. A member that does not
// take part, since it heals or is a spare, gives nothing and gets the result. Avg divides
// by the number of ranks that take part.
//
// # Errors of rounding
//
// A row whose largest magnitude is m has the scale s = max(m/M, 2^-126), where M is 127 for
// Int8 and 448 for E4M3. An element x of it comes back as x', and up to the rounding of
// float32
//
//	Int8   |x' - x| <= s/2
//	E4M3   |x' - x| <= max(|x|/16, s/1024)
//
// A result has the errors of all ranks' rows, added up, and one more for the sum's own
// row. For Avg all that is divided by the number of ranks.
//
// A row of zeros has the scale 0 and comes back as zeros, negative ones as positive. A row
// with a NaN or an infinity in it, on any rank, and one whose sum overflows float32, comes
// back as NaNs throughout, on all ranks.
//
// # Cost
//
// A rank gives W·P·(Row+4) bytes to the all-to-all and P·(Row+4) to the all-gather: about
// a quarter of what the elements take in float32, for each of the two. [Options.Sent] has
// the exact numbers. The verb allocates three times the codes of all rows. Buffers lie on the
// CPU.
//
// The package has no goroutines and no state.
package quant
