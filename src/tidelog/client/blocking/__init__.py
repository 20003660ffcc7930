"""The blocking clients: the asyncio clients, run on one thread for the whole process."""
