"""Table columns: conversion to arrays, integer codes of values, lookup of stats."""
