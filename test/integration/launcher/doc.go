// Package launcher runs real jobs under skerry run, kills their ranks, and wants the jobs to
// end well.
package launcher
