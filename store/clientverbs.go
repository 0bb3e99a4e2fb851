package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Get waits for key and returns its value.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkKeys(len(keySlash), key); err != nil {
		return nil, annotate(err, "get", key)
	}
	var value []byte
	err := c.call(ctx, true, func(ctx context.Context, conn *clientConn) (err error) {
		value, err = conn.get(ctx, key)
		return err
	})
	return value, annotate(err, "get", key)
}

// get asks first, and waits only if there is nothing: an empty answer is an
// empty value, or none. After a wait the key may be gone again.
func (c *clientConn) get(ctx context.Context, key string) ([]byte, error) {
	ask := appendKey([]byte{byte(opGet)}, key)
	keys := []string{key}
	for {
		value, err := c.askBytes(ask)
		if err != nil || len(value) > 0 {
			return value, err
		}
		there, err := c.check(keys)
		if err != nil {
			return nil, err
		}
		if !there {
			if err := c.wait(ctx, keys); err != nil {
				return nil, err
			}
			continue
		}
		// It may have been set between the two questions.
		if value, err = c.askBytes(ask); err != nil || len(value) > 0 {
			return value, err
		}
		return []byte{}, nil
	}
}

func (c *clientConn) check(keys []string) (bool, error) {
	status, err := c.ask(appendKeys([]byte{byte(opCheck)}, keys))
	return status == answerReady && err == nil, err
}

// MultiGet waits for all keys and returns their values.
func (c *Client) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	if err := checkKeys(len(keySlash), keys...); err != nil {
		return nil, annotate(err, "multi-get", keys...)
	}
	values := make([][]byte, len(keys))
	err := c.call(ctx, true, func(ctx context.Context, conn *clientConn) error {
		if err := conn.wait(ctx, keys); err != nil {
			return err
		}
		return conn.multiGet(keys, values)
	})
	if err != nil {
		return nil, annotate(err, "multi-get", keys...)
	}
	return values, nil
}

func (c *clientConn) multiGet(keys []string, values [][]byte) (err error) {
	if err := c.send(appendKeys([]byte{byte(opMultiGet)}, keys)); err != nil {
		return err
	}
	for i := range values {
		c.d.spent = 0 // it is our own question that asks for so much
		if values[i], err = c.d.bytes(); err != nil {
			return err
		}
	}
	return nil
}

// Wait blocks until all keys are there.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	if err := checkKeys(len(keySlash), keys...); err != nil {
		return annotate(err, "wait for", keys...)
	}
	err := c.call(ctx, true, func(ctx context.Context, conn *clientConn) error {
		if err := conn.wait(ctx, keys); err != nil || len(keys) != 1 {
			return err
		}
		// A server wakes one waiter for an element that is pushed. Any next
		// command tells it that we did not come for the element.
		return conn.fence(nil)
	})
	return annotate(err, "wait for", keys...)
}

// Check tells at once whether all keys are there.
func (c *Client) Check(ctx context.Context, keys ...string) (there bool, err error) {
	if err := checkKeys(len(keySlash), keys...); err != nil {
		return false, annotate(err, "check", keys...)
	}
	err = c.call(ctx, false, func(_ context.Context, conn *clientConn) error {
		there, err = conn.check(keys)
		return err
	})
	return there, annotate(err, "check", keys...)
}

// NumKeys counts the keys of the whole store, PyTorch's count of workers
// included, or of what the client's token allows.
func (c *Client) NumKeys(ctx context.Context) (int64, error) {
	n, err := c.number(ctx, []byte{byte(opNumKeys)})
	return n, annotate(err, "count keys")
}

// Set keeps value under key.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return annotate(c.write(ctx, opSet, key, value), "set", key)
}

// Append adds value to the end of what is under key.
func (c *Client) Append(ctx context.Context, key string, value []byte) error {
	return annotate(c.write(ctx, opAppend, key, value), "append to", key)
}

// Push adds value to the end of the queue under key.
func (c *Client) Push(ctx context.Context, key string, value []byte) error {
	return annotate(c.write(ctx, opPush, key, value), "push to", key)
}

// write sends a command that has no answer, and makes sure of it.
func (c *Client) write(ctx context.Context, op opcode, key string, value []byte) error {
	if err := errors.Join(checkKeys(len(keySlash), key), checkValues(value)); err != nil {
		return err
	}
	return c.call(ctx, false, func(_ context.Context, conn *clientConn) error {
		b := make([]byte, 0, len(key)+len(value)+32)
		return conn.fence(appendBlob(appendKey(append(b, byte(op)), key), value))
	})
}

// MultiSet sets all keys.
func (c *Client) MultiSet(ctx context.Context, keys []string, values [][]byte) error {
	if err := checkMultiSet(len(keySlash), keys, values); err != nil {
		return annotate(err, "multi-set", keys...)
	}
	err := c.call(ctx, false, func(_ context.Context, conn *clientConn) error {
		b := appendUint64([]byte{byte(opMultiSet)}, uint64(len(keys)))
		for i, key := range keys {
			b = appendBlob(appendKey(b, key), values[i])
		}
		return conn.fence(b)
	})
	return annotate(err, "multi-set", keys...)
}

// Add adds delta to the number under key and returns the sum.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	if err := checkKeys(len(keySlash), key); err != nil {
		return 0, annotate(err, "add to", key)
	}
	sum, err := c.addRaw(ctx, keySlash+key, delta)
	if err != nil && serverLeft(err) {
		// The protocol has no way to say "not a number": the server hangs up.
		// Ask what is there, to say it for the server.
		if why := c.whyNoSum(ctx, key, delta); why != nil {
			err = why
		} else {
			err = fmt.Errorf("%w (a server with StrictAdd hangs up so if the key was set)", err)
		}
	}
	return sum, annotate(err, "add to", key)
}

// serverLeft: it ended the connection, and nothing else went wrong.
func serverLeft(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// whyNoSum looks at a key that could not be added to; nil if it cannot tell.
func (c *Client) whyNoSum(ctx context.Context, key string, delta int64) error {
	var value []byte
	var there bool
	err := c.call(ctx, false, func(_ context.Context, conn *clientConn) (err error) {
		if there, err = conn.check([]string{key}); err == nil {
			value, err = conn.askBytes(appendKey([]byte{byte(opGet)}, key))
		}
		return err
	})
	if err != nil || !there {
		return nil
	}
	_, err = addTo(value, delta)
	return err
}

func (c *Client) addRaw(ctx context.Context, key string, delta int64) (int64, error) {
	return c.number(ctx, appendUint64(appendBlob([]byte{byte(opAdd)}, key), uint64(delta)))
}

// number sends a command whose answer is an int64.
func (c *Client) number(ctx context.Context, request []byte) (n int64, err error) {
	err = c.call(ctx, false, func(_ context.Context, conn *clientConn) (err error) {
		n, err = conn.askInt64(request)
		return err
	})
	return n, err
}

// CompareSet sets key to desired if it holds expected; see [Writer].
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	if err := errors.Join(checkKeys(len(keySlash), key), checkValues(expected, desired)); err != nil {
		return nil, annotate(err, "compare-set", key)
	}
	var now []byte
	err := c.call(ctx, false, func(_ context.Context, conn *clientConn) (err error) {
		b := appendKey([]byte{byte(opCompareSet)}, key)
		now, err = conn.askBytes(appendBlob(appendBlob(b, expected), desired))
		return err
	})
	return now, annotate(err, "compare-set", key)
}

// Delete tells whether the key was there.
func (c *Client) Delete(ctx context.Context, key string) (bool, error) {
	if err := checkKeys(len(keySlash), key); err != nil {
		return false, annotate(err, "delete", key)
	}
	n, err := c.number(ctx, appendKey([]byte{byte(opDelete)}, key))
	return n > 0, annotate(err, "delete", key)
}

// DeletePrefix deletes every key and queue under prefix. It is a command of
// ours: PyTorch's server ends the connection, which is ErrUnsupported.
func (c *Client) DeletePrefix(ctx context.Context, prefix string) (int64, error) {
	prefix = joinPrefix(prefix)
	if err := checkKeys(len(keySlash), prefix); err != nil {
		return 0, annotate(err, "delete prefix", prefix)
	}
	n, err := c.number(ctx, appendKey([]byte{byte(opDeletePrefix)}, prefix))
	if err != nil && serverLeft(err) {
		err = errors.Join(ErrUnsupported, err)
	}
	return n, annotate(err, "delete prefix", prefix)
}

// Pop takes the oldest value of the queue under key.
func (c *Client) Pop(ctx context.Context, key string, block bool) ([]byte, error) {
	if err := checkKeys(len(keySlash), key); err != nil {
		return nil, annotate(err, "pop from", key)
	}
	var value []byte
	err := c.call(ctx, block, func(ctx context.Context, conn *clientConn) (err error) {
		value, err = conn.pop(ctx, key, block)
		return err
	})
	return value, annotate(err, "pop from", key)
}

// pop asks for an element, and waits as long as there is none.
func (c *clientConn) pop(ctx context.Context, key string, block bool) ([]byte, error) {
	for {
		value, before, err := c.takeOne(key)
		switch {
		case err != nil || before > 0:
			return value, err
		case !block:
			return nil, &cleanError{err: ErrEmpty}
		}
		if err := ended(ctx); err != nil {
			return nil, err
		}
		if err := c.wait(ctx, []string{key}); err != nil {
			return nil, err
		}
	}
}

func (c *clientConn) takeOne(key string) (value []byte, before int64, err error) {
	c.setTaking(true)
	defer c.setTaking(false)
	before, err = c.askInt64(appendKey([]byte{byte(opPop)}, key))
	if err != nil || before <= 0 {
		return nil, before, err
	}
	c.d.spent = 0
	value, err = c.d.bytes()
	return value, before, err
}

// Len is the length of the queue under key.
func (c *Client) Len(ctx context.Context, key string) (int64, error) {
	if err := checkKeys(len(keySlash), key); err != nil {
		return 0, annotate(err, "measure", key)
	}
	n, err := c.number(ctx, appendKey([]byte{byte(opLen)}, key))
	return n, annotate(err, "measure", key)
}
