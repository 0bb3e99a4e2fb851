// Package ckpttest is the conformance suite of [checkpoint.Transport]: every
// implementation calls Run from a test, with a Factory that makes connected
// transports. Each case is named after the rule of the interface that it
// checks.
package ckpttest
