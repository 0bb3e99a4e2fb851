package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

func (c *Client) rawGet(ctx context.Context, key string) (value []byte, err error) {
	err = c.call(ctx, true, func(ctx context.Context, conn *clientConn) (err error) {
		value, err = conn.get(ctx, key)
		return err
	})
	return value, err
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

func (c *Client) rawMultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := c.call(ctx, true, func(ctx context.Context, conn *clientConn) error {
		if err := conn.wait(ctx, keys); err != nil {
			return err
		}
		return conn.multiGet(keys, values)
	})
	if err != nil {
		return nil, err
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

func (c *Client) rawWait(ctx context.Context, keys []string) error {
	return c.call(ctx, true, func(ctx context.Context, conn *clientConn) error {
		if err := conn.wait(ctx, keys); err != nil || len(keys) != 1 {
			return err
		}
		// A server wakes one waiter for an element that is pushed. Any next
		// command tells it that we did not come for the element.
		return conn.fence(nil)
	})
}

func (c *Client) rawCheck(ctx context.Context, keys []string) (there bool, err error) {
	err = c.call(ctx, false, func(_ context.Context, conn *clientConn) (err error) {
		there, err = conn.check(keys)
		return err
	})
	return there, err
}

func (c *Client) rawNumKeys(ctx context.Context) (int64, error) {
	return c.number(ctx, []byte{byte(opNumKeys)})
}

// rawWrite sends a command that has no answer, and makes sure of it.
func (c *Client) rawWrite(ctx context.Context, op opcode, key string, value []byte) error {
	return c.call(ctx, false, func(_ context.Context, conn *clientConn) error {
		b := make([]byte, 0, len(key)+len(value)+32)
		return conn.fence(appendBlob(appendKey(append(b, byte(op)), key), value))
	})
}

func (c *Client) rawMultiSet(ctx context.Context, keys []string, values [][]byte) error {
	return c.call(ctx, false, func(_ context.Context, conn *clientConn) error {
		b := appendUint64([]byte{byte(opMultiSet)}, uint64(len(keys)))
		for i, key := range keys {
			b = appendBlob(appendKey(b, key), values[i])
		}
		return conn.fence(b)
	})
}

func (c *Client) rawAdd(ctx context.Context, key string, delta int64) (int64, error) {
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
	return sum, err
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

func (c *Client) rawCompareSet(ctx context.Context, key string, expected, desired []byte) (now []byte, err error) {
	err = c.call(ctx, false, func(_ context.Context, conn *clientConn) (err error) {
		b := appendKey([]byte{byte(opCompareSet)}, key)
		now, err = conn.askBytes(appendBlob(appendBlob(b, expected), desired))
		return err
	})
	return now, err
}

func (c *Client) rawDelete(ctx context.Context, key string) (bool, error) {
	n, err := c.number(ctx, appendKey([]byte{byte(opDelete)}, key))
	return n > 0, err
}

func (c *Client) rawDeletePrefix(ctx context.Context, prefix string) (int64, error) {
	n, err := c.number(ctx, appendKey([]byte{byte(opDeletePrefix)}, prefix))
	if err != nil && serverLeft(err) {
		err = errors.Join(ErrUnsupported, err)
	}
	return n, err
}

func (c *Client) rawPop(ctx context.Context, key string, block bool) (value []byte, err error) {
	err = c.call(ctx, block, func(ctx context.Context, conn *clientConn) (err error) {
		value, err = conn.pop(ctx, key, block)
		return err
	})
	return value, err
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

func (c *Client) rawLen(ctx context.Context, key string) (int64, error) {
	return c.number(ctx, appendKey([]byte{byte(opLen)}, key))
}
