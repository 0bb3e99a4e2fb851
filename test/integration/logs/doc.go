// Package logs puts together what a lighthouse and its trainers log, and reads it as an
// operator does: one incident, by the id of the quorum that fell.
package logs
