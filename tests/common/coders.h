/* SPDX-License-Identifier: BSD-3-Clause */
/* coders.h - an encoder or a decoder for a test to use */
#ifndef TS_TESTS_CODERS_H
#define TS_TESTS_CODERS_H

#include "codec.h"

static inline struct ts_coder *take_encoder(struct ts_codec *codec)
{
	return ts_borrow(&codec->encoders);
}

static inline void give_encoder(struct ts_codec *codec, struct ts_coder *c)
{
	ts_return(&codec->encoders, c);
}

static inline struct ts_coder *take_decoder(struct ts_codec *codec)
{
	return ts_borrow(&codec->decoders);
}

static inline void give_decoder(struct ts_codec *codec, struct ts_coder *c)
{
	ts_return(&codec->decoders, c);
}

#endif
