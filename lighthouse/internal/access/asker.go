package access

import (
	"context"
	"net"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// What a server tells the leader of who asked it, and that it does so. A name may be of any
// script, which takes a key in "-bin".
const (
	byKey    = "skerry-by-bin"
	fromKey  = "skerry-from-bin"
	askerKey = "skerry-asker-proof"
)

// Orders are the calls by which an operator changes something of a job, and those of launchers: the
// leader is told who asked.
func Orders(method string) bool {
	switch method {
	case skerrypb.Lighthouse_Drain_FullMethodName, skerrypb.Lighthouse_Undrain_FullMethodName, skerrypb.Lighthouse_Evict_FullMethodName,
		skerrypb.Lighthouse_KillReplica_FullMethodName, skerrypb.Lighthouse_Configure_FullMethodName,
		skerrypb.Lighthouse_Scale_FullMethodName, skerrypb.Lighthouse_Wanted_FullMethodName:
		return true
	}
	return false
}

// Asker is who asked for an order, and from which address.
type Asker struct{ By, From string }

// proved is what a server proves of it, together with the request.
func (a Asker) proved(method string) string { return "asker " + method + "\n" + a.By + "\n" + a.From }

// Tell adds a to the metadata of a call that is passed on.
func (a Asker) Tell(ctx context.Context, g *guard.Guard, method string, req any) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, byKey, a.By, fromKey, a.From)
	if proof := g.Token.Prove(a.proved(method), guard.Body(req)); proof != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, askerKey, proof)
	}
	return ctx
}

// AskerOf is who makes a call: as the server says that was asked, or by the name of its
// certificate, the token, or its address.
func AskerOf(ctx context.Context, g *guard.Guard, method string, req any) Asker {
	if a, ok := toldAsker(ctx, g, method, req); ok {
		return a
	}
	var a Asker
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return a
	}
	a.From = p.Addr.String()
	if host, _, err := net.SplitHostPort(a.From); err == nil {
		a.From = host
	}
	a.By = a.From
	if name := guard.CallerName(ctx); name != "" {
		a.By = name
	} else if !g.Token.IsZero() && !guard.IsUnvouched(ctx) {
		a.By = "token"
	}
	return a
}

// Unproved follows the name of who asked for something where a server says it, and any program
// could: there is no token, or its proof is not wanted yet.
const Unproved = " (unproved)"

// toldAsker is what another server tells of who asked it, if it did, and is one: by the
// token, and with a CA by its role, too.
func toldAsker(ctx context.Context, g *guard.Guard, method string, req any) (Asker, bool) {
	in, _ := metadata.FromIncomingContext(ctx)
	one := func(key string) string {
		if values := in.Get(key); len(values) == 1 {
			return values[0]
		}
		return ""
	}
	a := Asker{By: guard.Shown(one(byKey)), From: guard.Shown(one(fromKey))}
	switch {
	case len(in.Get(HopKey)) == 0 || a.By == "":
		return Asker{}, false
	case g.AsksClients() && g.CheckFellow(ctx) != nil:
		return Asker{}, false
	case g.Token.IsZero() || g.Adopt.Lenient():
		if !g.AsksClients() { // else a server's certificate says it
			a.By += Unproved
		}
		return a, true
	}
	return a, g.Token.Check(one(askerKey), Asker{one(byKey), one(fromKey)}.proved(method), guard.Body(req)) == nil
}
