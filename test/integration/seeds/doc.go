// Package seeds runs the examples that the documentation of torch.distributed,
// its training guide and its debugging page print, as written there but for the
// language, and compares what is printed. Those that are one verb's are in package
// pg/pgtest, which runs them over every backend; here are those of stores, of
// initialization, and of programs with an error in them. What the pages get wrong
// is listed in pg/pgtest/case_seeds.go.
package seeds
