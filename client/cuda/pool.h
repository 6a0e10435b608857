/* SPDX-License-Identifier: Apache-2.0 */
/* The pool adapter, for the stager's sake: everything else of it goes through struct dlo_cache. */
#pragma once

#include "client/cuda/cache.h"

/* The pool of a cache, NULL where it is not one of a pool. */
struct CUmemPoolHandle_st *pool_of_cache(const struct dlo_cache *cache);
