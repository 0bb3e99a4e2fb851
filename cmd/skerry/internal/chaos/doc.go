// Package chaos is `skerry chaos`: it breaks a job that runs, again and again, watches
// how the job gets over it, and reports.
//
//	           every so often           what /proc and the lighthouse say
//	drill ──▶ plan.Next(number, world) ◀── site ◀── procs, lighthouse
//	  │            │ a fault, or why none
//	  │            ▼
//	  │        inject: signals, sockets, a full disk, the lighthouse's API
//	  │ looks, four a second
//	  ▼
//	report.Recorder ──▶ table, JSON, SVG
//
// Rules:
//
//   - A fault comes only while the job trains, and is back from the one before, unless overlap
//     is wanted. Package plan says which ones may come at all.
//   - What a user asks for and this host, the job or the lighthouse cannot do is an error
//     before the first fault, with what to do. What cannot be done later is left out, and
//     the report says why.
//   - On a lighthouse that is guarded the operators' token is needed for all faults, those by
//     signals, too.
//   - What lasts is ended however the run ends: see package faults.
//   - A process is hit only if it is known to be the one that is meant: see package procs.
//
// A drill runs in one goroutine, its caller's.
package chaos
