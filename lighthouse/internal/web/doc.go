// Package web is what a lighthouse says over HTTP: its pages, its API, metrics and
// profiles, and who may see and do what there. It knows the lighthouse by two small
// interfaces, Lighthouse and Actions, which the server implements.
//
// Any server answers: what only the leader knows is passed on to it, with a proof that
// the request was checked here.
package web
